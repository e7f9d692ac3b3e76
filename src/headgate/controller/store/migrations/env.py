"""Run by Alembic: applies revisions over the connection, and in the transaction, of the caller."""

from __future__ import annotations

from alembic import context

from headgate.controller.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
