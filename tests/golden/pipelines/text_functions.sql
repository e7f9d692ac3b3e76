INSERT INTO output
SELECT ride, character_length(driver) AS length, concat(city, '/', status) AS place, city || driver AS joined,
  strpos(driver, '-') AS dash, split_part(driver, '-', 2) AS number, initcap(status) AS title, left(status, 3) AS head,
  regexp_replace(driver, '[0-9]', '#', 'g') AS hidden, driver ~ '[1-3]$' AS low, status SIMILAR TO '(re|st)%' AS begun,
  status ILIKE 'CAN%' AS cancelled, coalesce(city, 'nowhere') AS city, nullif(status, 'started') AS other,
  lpad(driver, 10, '*') AS padded, btrim('  x ') AS trimmed, md5(driver) AS digest, starts_with(status, 're') AS re
FROM rides;
