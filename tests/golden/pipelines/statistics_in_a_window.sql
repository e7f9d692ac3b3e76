INSERT INTO output
SELECT driver, tumble(interval '30 seconds') AS window, stddev(fare) AS sd, stddev_samp(fare) AS sd_samp,
  stddev_pop(fare) AS sd_pop, var(fare) AS v, var_samp(fare) AS v_samp, var_pop(fare) AS v_pop,
  covar_samp(fare, distance) AS c_samp, covar_pop(fare, distance) AS c_pop, corr(fare, distance) AS r,
  regr_count(fare, distance) AS n, regr_avgx(fare, distance) AS ax, regr_avgy(fare, distance) AS ay,
  regr_sxx(fare, distance) AS sxx, regr_syy(fare, distance) AS syy, regr_sxy(fare, distance) AS sxy,
  regr_slope(fare, distance) AS slope, regr_intercept(fare, distance) AS intercept, regr_r2(fare, distance) AS r2
FROM rides GROUP BY driver, window;
