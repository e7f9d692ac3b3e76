-- The fraction is a constant, counted from the other end if the order is descending.
approx_percentile_cont(0.9) WITHIN GROUP (ORDER BY x) => percentile_approx(x, 0.9)
approx_percentile_cont(0.9) WITHIN GROUP (ORDER BY x DESC) => percentile_approx(x, 0.1)
approx_percentile_cont(0.9) WITHIN GROUP (ORDER BY x ASC NULLS FIRST) => percentile_approx(x, 0.9)
approx_percentile_cont(0.9) WITHIN GROUP (ORDER BY x) FILTER (WHERE y) => percentile_approx(x, 0.9) FILTER(WHERE y)
approx_percentile_cont(x, 0.9) => percentile_approx(x, 0.9)
approx_percentile_cont((0.9)::DOUBLE) WITHIN GROUP (ORDER BY x) => percentile_approx(x, 0.9)
-- Spark is more accurate than a digest of a few hundred centroids.
approx_percentile_cont(0.9, 100) WITHIN GROUP (ORDER BY x) => percentile_approx(x, 0.9)
approx_percentile_cont(0.9, 20000) WITHIN GROUP (ORDER BY x) => percentile_approx(x, 0.9, 20000)
approx_percentile_cont(x, 0.9, 200) => percentile_approx(x, 0.9)
-- Weights are how often a value counts.
approx_percentile_cont_with_weight(w, 0.5) WITHIN GROUP (ORDER BY x) => percentile(x, 0.5, w)
approx_percentile_cont_with_weight(w, 0.25) WITHIN GROUP (ORDER BY x DESC) FILTER (WHERE y) => percentile(x, 0.75, w) FILTER(WHERE y)
approx_percentile_cont_with_weight(w, 0.5, 100) WITHIN GROUP (ORDER BY x) => percentile(x, 0.5, w)
approx_percentile_cont_with_weight(x, w, 0.5) => percentile(x, 0.5, w)
approx_percentile_cont_with_weight(x, w, 0.5, 100) => percentile(x, 0.5, w)
-- The exact ones.
percentile_cont(0.5) WITHIN GROUP (ORDER BY x) => percentile(x, 0.5)
percentile_cont(0.25) WITHIN GROUP (ORDER BY x DESC) FILTER (WHERE y) => percentile(x, 0.75) FILTER(WHERE y)
percentile_cont(ARRAY[0.25, 1]) WITHIN GROUP (ORDER BY x DESC) => percentile(x, array(0.75, 0))
percentile_cont(x, 0.5) => percentile(x, 0.5)
quantile_cont(0.5) WITHIN GROUP (ORDER BY x) => percentile(x, 0.5)
quantile_cont(x, 0.5) => percentile(x, 0.5)
-- Spark has these.
percentile_disc(0.5) WITHIN GROUP (ORDER BY x) FILTER (WHERE y) => percentile_disc(0.5) WITHIN GROUP (ORDER BY x NULLS LAST) FILTER(WHERE y)
mode() WITHIN GROUP (ORDER BY x) => mode() WITHIN GROUP (ORDER BY x NULLS LAST)
percentile(x, 0.5) => percentile(x, 0.5)
