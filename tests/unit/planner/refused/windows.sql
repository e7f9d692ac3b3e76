-- error: hop() width 600s currently must be a multiple of slide 180s
SELECT count(*) FROM rides GROUP BY »hop(interval '3 minutes', interval '10 minutes')

-- error: time window function hop is not allowed in this context. Are you missing a GROUP BY clause?
SELECT »hop(interval '1 minute', interval '10 minutes') FROM rides

-- error: time window function tumble is not allowed in this context. Are you missing a GROUP BY clause?
SELECT kind FROM rides WHERE »tumble('1 minute') IS NOT NULL

-- error: time window function tumble is not allowed in this context. Are you missing a GROUP BY clause?
SELECT »tumble('1 minute'), count(*) FROM rides GROUP BY kind

-- error: window in group by does not match input window
SELECT count(*) FROM (
  SELECT count(*) AS n, tumble(interval '1 minute') AS window FROM rides GROUP BY 2
) GROUP BY »tumble(interval '2 minutes')

-- error: must have window in aggregate. Make sure you are calling one of the windowing functions (hop, tumble, session) or using the window field of the input
SELECT n, count(*) FROM (
  SELECT count(*) AS n, tumble(interval '1 minute') AS window FROM rides GROUP BY 2
) GROUP BY »n

-- error: must have window in aggregate. Make sure you are calling one of the windowing functions (hop, tumble, session) or using the window field of the input
»SELECT max(n) FROM (
  SELECT count(*) AS n, tumble(interval '1 minute') AS window FROM rides GROUP BY 2
)

-- error: must have window in aggregate. Make sure you are calling one of the windowing functions (hop, tumble, session) or using the window field of the input
»SELECT DISTINCT n FROM (
  SELECT count(*) AS n, tumble(interval '1 minute') AS window FROM rides GROUP BY 2
)

-- error: can't reinvoke session window in nested aggregates. Need to pass the window struct up from the source query.
SELECT max(n) FROM (
  SELECT count(*) AS n FROM rides GROUP BY session('1 minute')
) GROUP BY »session('1 minute')

-- error: do not support 2 window expressions in group by
SELECT count(*) FROM rides GROUP BY tumble('1 minute'), »hop('1 minute', '2 minutes')

-- error: wrong number of arguments for tumble(): write tumble(width)
SELECT count(*) FROM rides GROUP BY »tumble('1 minute', '2 minutes')

-- error: wrong number of arguments for hop(): write hop(slide, width)
SELECT count(*) FROM rides GROUP BY »hop('1 minute')

-- error: expected an interval, like INTERVAL '5 seconds'
SELECT count(*) FROM rides GROUP BY tumble(»seats)

-- error: the interval of tumble() must be greater than zero
SELECT count(*) FROM rides GROUP BY tumble(»'0 seconds')

-- error: '1 MONTH' has no fixed length: use days or smaller units
SELECT count(*) FROM rides GROUP BY »tumble(interval '1 month')

-- error: 'soon' is not an interval: write for example '5 seconds'
SELECT count(*) FROM rides GROUP BY tumble(»'soon')

-- error: can't window an updating input
SELECT count(*) FROM orders GROUP BY »tumble('1 minute')

-- error: Window functions require already windowed input: GROUP BY a window below, and put it into PARTITION BY; for one row of every key, GROUP BY the key with first_value() or last_value()
SELECT *, »row_number() OVER (PARTITION BY driver ORDER BY at) FROM rides

-- error: Window functions require already windowed input: *
SELECT *, »rank() OVER (PARTITION BY kind ORDER BY n) FROM (SELECT kind, count(*) AS n FROM rides GROUP BY 1)

-- error: Window function requires exactly one window expression in partition_by
SELECT »row_number() OVER (ORDER BY n) FROM (
  SELECT count(*) AS n, tumble('1 minute') AS window FROM rides GROUP BY 2
)

-- error: OVER is only allowed in the SELECT list
SELECT kind FROM rides WHERE »row_number() OVER (PARTITION BY kind ORDER BY at) = 1

-- error: column 'kind' must appear in the GROUP BY clause or be used in an aggregate function
SELECT »kind, count(*) FROM rides GROUP BY tumble('1 minute')

-- error: GROUP BY position 9 is not in the SELECT list
SELECT kind, count(*) FROM rides GROUP BY »9, tumble('1 minute')

-- error: GROUP BY a constant is not supported
SELECT count(*) FROM rides GROUP BY »'x'

-- error: GROUP BY ROLLUP is not supported
SELECT count(*) FROM rides GROUP BY ROLLUP(»kind)

-- error: Write GROUP BY tumble(interval '1 minute') or hop(slide, width) over the table itself, instead of the table of windows at 'TUMBLE'
SELECT window_start, count(*) FROM TABLE(»TUMBLE(TABLE rides, DESCRIPTOR(at), INTERVAL '1' MINUTE)) GROUP BY 1

-- error: Write GROUP BY tumble(interval '1 minute') or hop(slide, width) over the table itself, instead of the table of windows at 'hop'
SELECT count(*) FROM »hop(TABLE rides, DESCRIPTOR(at), INTERVAL '1' MINUTE, INTERVAL '2' MINUTES)

-- error: unknown function 'window': write tumble(interval '10 seconds'), or hop(slide, width)
SELECT count(*) FROM rides GROUP BY »window(at, '10 seconds')

-- error: unknown function 'tumble_start': the window has fields: *
SELECT »tumble_start(at, interval '1 minute') FROM rides GROUP BY tumble(interval '1 minute')
