"""Databases of earlier versions are brought up to date, those of later ones are refused."""

from __future__ import annotations

import tarfile
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from headgate.controller.store import migrations
from headgate.controller.store.jobs import JobStore
from headgate.controller.store.tables import metadata, open_engine
from headgate.controller.store.upgrade import upgrade_schema
from headgate.core.errors import UserError
from headgate.core.ids import JobId
from tests.unit.controller.support import is_exact, job_spec, new_controller, published

# Written by the version before there were migrations: a job that ran when its controller went away.
BEFORE = Path(__file__).parents[1] / "fixtures" / "job_store_before_migrations.tar.gz"
JOB = JobId("orders")
PATIENCE_SECONDS = 120.0


def unpack(folder: Path) -> Path:
    with tarfile.open(BEFORE) as tar:
        tar.extractall(folder, filter="data")
    return folder / "jobs.db"


def revision(url: str) -> str | None:
    engine = open_engine(url)
    with engine.connect() as connection:
        found = MigrationContext.configure(connection).get_current_revision()
    engine.dispose()
    return found


def rows(engine: sa.Engine, table: sa.Table) -> list[tuple[object, ...]]:
    with engine.connect() as connection:
        order = list(table.primary_key.columns)
        return [tuple(row) for row in connection.execute(sa.select(table).order_by(*order))]


def old_tables(engine: sa.Engine) -> list[sa.Table]:
    """Return the tables that a database has; the others came later."""
    there = sa.inspect(engine).get_table_names()
    return [table for table in metadata.sorted_tables if table.name in there]


def copy_without_mark(source: Path, url: str) -> None:
    """Make the database what an old one was: its tables and rows, and no mark of a revision."""
    there, here = open_engine(str(source)), open_engine(url)
    upgrade_schema(here, to="0001")
    with here.begin() as connection:
        connection.execute(sa.text("DROP TABLE alembic_version"))
        for table in old_tables(there):
            found = rows(there, table)
            if found:
                connection.execute(sa.insert(table).values(found))
    there.dispose()
    here.dispose()


def test_job_of_an_old_database_goes_on_where_it_was(tmp_path: Path) -> None:
    database = unpack(tmp_path)
    assert revision(str(database)) is None
    before = published(tmp_path)
    assert len(before) == 3
    controller = new_controller(tmp_path, rows=300, rate=50)
    assert revision(str(database)) == migrations.NEWEST
    controller.start(take_up=False)
    try:
        # What was stored is there, and read; only the folders are others than then.
        assert controller.job_status(JOB).committed_epoch == 3
        assert controller.job_history(JOB)[0].kind == "transition"
        assert controller.attach_job(job_spec(tmp_path)) == JOB
        status = controller.wait_for(JOB, lambda s: s.terminal, PATIENCE_SECONDS)
        checkpoints = controller.job_checkpoints(JOB)
    finally:
        controller.close()
    assert (status.state, status.generation) == ("finished", 2)
    assert published(tmp_path)[: len(before)] == before
    assert is_exact(published(tmp_path), 300)
    assert {1, 2, 3} < {note.epoch for note in checkpoints}


def test_old_database_is_taken_over_with_all_its_rows(url: str, tmp_path: Path) -> None:
    source = unpack(tmp_path)
    copy_without_mark(source, url)
    old = open_engine(str(source))
    expected = {table.name: rows(old, table) for table in old_tables(old)}
    old.dispose()
    store = JobStore(url)
    stored = store.get_job(JOB)
    entries = store.read_history(JOB)
    store.close()
    assert revision(url) == migrations.NEWEST
    assert stored is not None
    assert stored.state.kind == "running"
    assert len(entries) == 3
    engine = open_engine(url)
    found = {table.name: rows(engine, table) for table in metadata.sorted_tables}
    assert {name: found.pop(name) for name in expected} == expected
    assert not any(found.values()), "what came later begins empty"
    engine.dispose()


def test_column_that_the_oldest_databases_lack_is_added(url: str, tmp_path: Path) -> None:
    copy_without_mark(unpack(tmp_path), url)
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE pipelines DROP COLUMN udf_source"))
    engine.dispose()
    store = JobStore(url)
    assert [pipeline.udf_source for pipeline in store.pipelines.list()] == [None]
    store.close()


def test_revisions_make_the_tables_that_the_code_uses(url: str) -> None:
    JobStore(url).close()
    engine = open_engine(url)
    with engine.connect() as connection:
        found = compare_metadata(MigrationContext.configure(connection), metadata)
    engine.dispose()
    assert found == []


def test_newest_revision_is_the_last_file() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    scripts = ScriptDirectory.from_config(config)
    assert scripts.get_heads() == [migrations.NEWEST]


def test_database_of_a_newer_version_is_refused_by_name_and_left_alone(url: str) -> None:
    JobStore(url).close()
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(UserError, match="'9999' of a newer version") as refused:
        JobStore(url)
    assert refused.value.code == "database_newer"
    assert str(engine.url.database) in refused.value.message
    engine.dispose()
    assert revision(url) == "9999"


def test_many_controllers_may_open_an_old_database_at_once(url: str, tmp_path: Path) -> None:
    copy_without_mark(unpack(tmp_path), url)
    failures: list[BaseException] = []
    together = threading.Barrier(6)

    def open_it() -> None:
        together.wait()
        try:
            JobStore(url).close()
        except BaseException as error:  # noqa: BLE001  kept for the assertion below
            failures.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert revision(url) == migrations.NEWEST
