"""Finds the entries of a job's history that are past their time without reading all of them."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_index("ix_history_job_kind_id", "history", ["job", "kind", "id"])
