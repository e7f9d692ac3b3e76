"""A damaged database of jobs is made again from the state store; one that is newer is refused."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from shop_job import CommandLine, three_epochs

from headgate import components
from headgate.components import configured_controller, job_spec
from headgate.config import Config
from headgate.controller.controller import Controller
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.states.created import Created
from headgate.controller.store.jobs import JobStore
from headgate.core.errors import ExternalError, StorageError, UserError
from headgate.core.ids import JobId

SQL = "SELECT counter FROM numbers -- " + "x" * 6_000
TEXT_JOB = JobId("from-text")


def database(state_dir: Path) -> Path:
    """A database with a job that has a text, was running, and has no checkpoint yet."""
    three_epochs(state_dir)
    path = state_dir / ".local" / "jobs.db"
    store = JobStore(f"sqlite:///{path}")
    spec = job_spec(Config(state_url=str(state_dir)), name=TEXT_JOB, sql=SQL)
    facts = JobFacts(job=TEXT_JOB, limits=Limits(), parallelism=1)
    store.create_job(TEXT_JOB, spec, Created(facts=facts), 5)
    store.close()
    # All of it is in one file: a damage to the file is a damage to what it says.
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@contextmanager
def opened(state_dir: Path) -> Iterator[Controller]:
    controller = configured_controller(Config(state_url=str(state_dir)))
    try:
        yield controller
    finally:
        controller.close()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 5])


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database\n" * 1_000)


def nonsense(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE jobs SET state = substr(state, 3)")
        connection.commit()


@pytest.mark.parametrize("damage", [empty, cut, zeros, garbage, nonsense])
def test_damaged_database_is_kept_and_made_again_from_the_state_store(
    state_dir: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    path = database(state_dir)
    damage(path)
    damaged = path.read_bytes()
    with opened(state_dir) as controller:
        found = {status.job: status for status in controller.job_statuses()}
        shop = found[JobId("shop")]
        assert (shop.state, shop.last_epoch, shop.committed_epoch) == ("stopped", 3, 3)
        assert shop.parallelism == 2
        # The graph is that of its checkpoints: it can go on.
        graph = controller.job_spec(JobId("shop")).graph
        assert graph is not None
        assert graph.sinks()
    if damage is nonsense:
        # What could be read of the old one counts: its text, and that it was to run.
        assert found[TEXT_JOB].state == "created"
    beside = ("-wal", "-shm")
    kept = [p for p in path.parent.glob("jobs.db.damaged-*") if not p.name.endswith(beside)]
    if damage is empty:
        assert kept == []
    else:
        assert [file.read_bytes() for file in kept] == [damaged]
        (said,) = [r.getMessage() for r in caplog.records if "was damaged" in r.getMessage()]
        assert str(kept[0]) in said
        assert "shop" in said
    caplog.clear()
    with opened(state_dir) as controller:
        assert {status.job for status in controller.job_statuses()} == found.keys()
    assert caplog.records == []


def test_garbage_anywhere_never_gives_a_traceback_nor_loses_the_job(state_dir: Path) -> None:
    path = database(state_dir)
    whole = path.read_bytes()
    luck = random.Random(7)
    for number in range(25):
        for left in path.parent.glob("jobs.db*"):
            left.unlink()
        at, size = luck.randrange(len(whole)), luck.choice([16, 512, 4096, 9000])
        path.write_bytes(whole[:at] + luck.randbytes(size) + whole[at + size :])
        case = f"case {number}: {size} bytes at {at} of {len(whole)}"
        told = refusal(state_dir, path, case)
        assert told is None or "\n" not in told, case


def refusal(state_dir: Path, path: Path, case: str) -> str | None:
    """Open it; return the one line that it is refused with, if it is."""
    try:
        with opened(state_dir) as controller:
            # Where the damage is in nobody's data the old one is still good.
            rebuilt = bool(list(path.parent.glob("jobs.db.damaged-*")))
            jobs = {status.job for status in controller.job_statuses()}
            assert JobId("shop" if rebuilt else TEXT_JOB) in jobs, case
    except (UserError, ExternalError) as error:
        return error.message
    return None


def test_database_of_a_newer_version_is_refused_and_not_touched(state_dir: Path) -> None:
    path = database(state_dir)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(UserError, match="of a newer version of Headgate"), opened(state_dir):
        pass
    assert path.read_bytes() == before
    assert list(path.parent.glob("jobs.db.damaged-*")) == []


@pytest.mark.parametrize("command", ["checkpoints", "doctor"])
@pytest.mark.parametrize("place", ["x" * 300, "file/below", "ftp://host/x", "nul\0"])
def test_impossible_state_dir_is_one_line_that_says_what_to_do(
    headgate: CommandLine, state_dir: Path, command: str, place: str
) -> None:
    (state_dir.parent / "file").write_text("no folder")
    told = headgate(command, "--state-dir", place, flag=False)
    assert told.code == 2
    assert told.err.startswith("error: "), told.err
    assert told.err.count("\n") == 1, told.err
    assert "--state-dir" in told.err or "give a path" in told.err


@pytest.mark.parametrize("place", ["x" * 300, "file", "file/below", "/proc/nothing"])
def test_state_dir_that_cannot_be_made_is_refused_before_anything_starts(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("no folder")
    url = place if place.startswith("/") else str(tmp_path / place)
    with pytest.raises(UserError, match=r"cannot write to the folder.*--state-dir"):
        configured_controller(Config(state_url=url))


def test_bucket_that_is_not_there_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As S3 answers: there is no such bucket."""
    monkeypatch.chdir(tmp_path)

    class NoSuchBucket:
        def list(self, prefix: str, *, after: str = "") -> Iterator[None]:
            raise StorageError("cannot list : NoSuchBucket")

    monkeypatch.setattr(components, "open_store", lambda url: NoSuchBucket())
    with pytest.raises(ExternalError) as refused:
        configured_controller(Config(state_url="s3://nowhere/x?secret=y"))
    message = refused.value.message
    assert message.startswith("the state store s3://nowhere/x does not answer: ")
    assert "NoSuchBucket" in message
    assert "--state-dir" in message
    assert "secret" not in message
