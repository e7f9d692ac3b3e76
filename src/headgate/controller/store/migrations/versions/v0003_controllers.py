"""The controllers of a shared database, and what the workers of their jobs last said."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "controllers",
        sa.Column("holder", sa.String(400), primary_key=True),
        sa.Column("instance", sa.String(40), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("pid", sa.BigInteger, nullable=False),
        sa.Column("version", sa.String(100), nullable=False),
        sa.Column("started_ms", sa.BigInteger, nullable=False),
        sa.Column("seen_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "progress",
        sa.Column("job", sa.String(200), primary_key=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("progress", sa.Text, nullable=False),
    )
