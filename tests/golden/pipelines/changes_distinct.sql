INSERT INTO changes SELECT DISTINCT owner, city FROM accounts;
