INSERT INTO changes
SELECT active, stddev(score) AS sd, stddev_pop(balance) AS sd_pop, var(balance) AS v, var_pop(score) AS v_pop,
  covar_samp(score, balance) AS c_samp, covar_pop(score, balance) AS c_pop, corr(score, balance) AS r,
  regr_count(score, balance) AS n, regr_avgx(score, balance) AS ax, regr_avgy(score, balance) AS ay,
  regr_sxx(score, balance) AS sxx, regr_syy(score, balance) AS syy, regr_sxy(score, balance) AS sxy,
  regr_slope(score, balance) AS slope, regr_intercept(score, balance) AS intercept, regr_r2(score, balance) AS r2
FROM accounts GROUP BY active;
