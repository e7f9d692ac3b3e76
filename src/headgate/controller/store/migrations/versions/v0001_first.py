"""The schema with which migrations began.

Databases of that time have no mark of their revision, and the oldest of them lack columns that
came later, all of which may be null. So this one creates what is missing, and leaves the rest.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

# Written out, not imported: `tables.py` goes on, this stays.
_metadata = sa.MetaData()
_TABLES = (
    sa.Table(
        "settings",
        _metadata,
        sa.Column("key", sa.String(100), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    ),
    sa.Table(
        "pipelines",
        _metadata,
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("sql", sa.Text, nullable=False),
        sa.Column("udf_source", sa.Text, nullable=True),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_ms", sa.BigInteger, nullable=False),
    ),
    sa.Table(
        "jobs",
        _metadata,
        sa.Column("id", sa.String(200), primary_key=True),
        sa.Column("pipeline", sa.String(200), nullable=False, index=True),
        sa.Column("state_url", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("state_kind", sa.String(40), nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_ms", sa.BigInteger, nullable=False),
    ),
    sa.Table(
        "leases",
        _metadata,
        sa.Column("job", sa.String(200), primary_key=True),
        sa.Column("holder", sa.String(400), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("expires_ms", sa.BigInteger, nullable=False),
    ),
    sa.Table(
        "history",
        _metadata,
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer, "sqlite"),
            primary_key=True,
            autoincrement=True,
        ),
        sa.Column("job", sa.String(200), nullable=False, index=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("entry", sa.Text, nullable=False),
    ),
    sa.Table(
        "checkpoints",
        _metadata,
        sa.Column("job", sa.String(200), primary_key=True),
        sa.Column("epoch", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("note", sa.Text, nullable=False),
    ),
)


def upgrade() -> None:
    connection = op.get_bind()
    found = sa.inspect(connection)
    there = {name: found.get_columns(name) for name in found.get_table_names()}
    for table in _TABLES:
        table.create(connection, checkfirst=True)
        known = {column["name"] for column in there.get(table.name, [])}
        for column in table.columns:
            if known and column.name not in known and column.nullable:
                op.add_column(table.name, sa.Column(column.name, column.type, nullable=True))
