"""Brings a database to the schema of this version before anybody uses it.

Alembic keeps the revision in the database. One without it is empty, or from before there were
revisions: both go through all of them. A database that a newer version has changed is refused.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from headgate.controller.store import migrations
from headgate.controller.store.tables import READING
from headgate.core.errors import UserError

# Any number will do, as long as it is always this one: controllers take turns under it.
_POSTGRES_LOCK = 4_862_017_331


def upgrade_schema(engine: Engine, *, to: str = migrations.NEWEST) -> None:
    """Apply the revisions that are missing: all of them, or nothing. Several may try at once."""
    with engine.connect().execution_options(**{READING: True}) as connection, connection.begin():
        if _revision(connection) == to:
            return
    # One transaction: SQLite's begins with its write lock (see `open_engine`).
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_POSTGRES_LOCK)))
        _upgrade(connection, to)


def _upgrade(connection: Connection, to: str) -> None:
    # Imported only by the start that needs it.
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    found = _revision(connection)
    if found is not None and found not in known:
        raise UserError(
            f"the database {connection.engine.url.render_as_string(hide_password=True)} has the"
            f" schema '{found}' of a newer version of Headgate, this one knows up to"
            f" '{migrations.NEWEST}': install that version, or give another database_url",
            code="database_newer",
        )
    command.upgrade(config, to)


def _revision(connection: Connection) -> str | None:
    """Return the revision of the database; None = it has no mark of one."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)
