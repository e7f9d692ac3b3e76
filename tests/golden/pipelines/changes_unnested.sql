INSERT INTO changes SELECT id, unnest(split(owner, '-')) AS part FROM accounts;
