INSERT INTO output
SELECT hop('10 seconds', '20 seconds') AS window, bit_or(flags) AS some, bit_xor(flags) AS odd, bool_and(pooled) AS pooled
FROM rides GROUP BY 1;
