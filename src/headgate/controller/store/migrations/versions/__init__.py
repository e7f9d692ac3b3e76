"""The revisions, oldest first; Alembic reads them."""
