INSERT INTO changes SELECT * FROM accounts;
