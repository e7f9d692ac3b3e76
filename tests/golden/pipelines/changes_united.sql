INSERT INTO changes
SELECT owner AS who, city FROM accounts WHERE active UNION ALL SELECT driver, city FROM rides WHERE seats = 4;
