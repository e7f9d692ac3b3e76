-- An update that crosses the condition is a create or a delete.
INSERT INTO changes SELECT id, upper(owner) AS owner, balance * 2 AS doubled FROM accounts WHERE balance > 1000 AND active;
