INSERT INTO changes SELECT count(*) AS accounts, sum(balance) AS total FROM accounts WHERE active;
