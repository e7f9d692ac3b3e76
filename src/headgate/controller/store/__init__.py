"""The database of jobs, pipelines and history: SQLite embedded, Postgres shared."""
