"""Jobs and savepoints of a state dir, without a service: listed, named, forked, deleted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from shop_job import COUNTS, CommandLine, damage, run_files, three_epochs

from headgate.cli.local.start_from import start_from
from headgate.controller.identity import lease_holder
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.spec import JobSpec
from headgate.controller.rules.states.created import Created
from headgate.controller.store.jobs import JobStore
from headgate.core.errors import UserError
from headgate.core.ids import JobId

SHOP = JobId("shop")


@pytest.fixture
def database(state_dir: Path) -> JobStore:
    """The database that `headgate run` keeps beside the state; it knows the job."""
    (state_dir / ".local").mkdir(parents=True)
    store = JobStore(f"sqlite:///{state_dir / '.local' / 'jobs.db'}")
    facts = JobFacts(job=SHOP, limits=Limits(), parallelism=2, entered_ms=1)
    spec = JobSpec(name="shop", sql="SELECT 1", state_url=str(state_dir), parallelism=2)
    store.create_job(SHOP, spec, Created(facts=facts), 1)
    return store


def run_here(database: JobStore) -> None:
    """This very process runs the job from now on."""
    database.leases.acquire(SHOP, lease_holder(), ttl_ms=3_600_000)


def test_jobs_are_listed_from_their_folders(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    three_epochs(state_dir, "other", commit_last=False)
    found = {job["job"]: job for job in headgate("jobs", "--json").json}
    assert {name: (job["state"], job["epoch"]) for name, job in found.items()} == {
        "shop": ("ready", 3),
        "other": ("committing", 3),
    }
    stored = [path for path in (state_dir / "shop").rglob("*") if path.is_file()]
    assert found["shop"]["objects"] == len(stored)
    assert found["shop"]["bytes"] == sum(path.stat().st_size for path in stored)
    lines = headgate("jobs").out.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["other", "committing", "3"],
        ["shop", "ready", "3"],
    ]


def test_a_job_that_is_run_is_listed_with_who_runs_it(
    headgate: CommandLine, state_dir: Path, database: JobStore
) -> None:
    three_epochs(state_dir)
    assert headgate("jobs", "--json").json[0]["run_by"] is None
    run_here(database)
    (job,) = headgate("jobs", "--json").json
    assert (job["state"], job["run_by"]) == ("running", "another process")


def test_a_savepoint_names_the_newest_whole_checkpoint(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    made = headgate("savepoint", "shop", "release")
    assert made.code == 0, made.err
    assert "savepoint release: epoch 3 of job shop" in made.out
    damage(run_files(shop, COUNTS, 3)[0], cut=True)
    # The only job of the state dir need not be named.
    assert headgate("savepoint", "before", "--json").json["epoch"] == 2
    listed = headgate("savepoints", "list", "--json").json["savepoints"]
    assert {line["name"]: line["epoch"] for line in listed} == {"release": 3, "before": 2}


def test_a_savepoint_beside_a_running_job_says_what_is_not_in_it(
    headgate: CommandLine, state_dir: Path, database: JobStore
) -> None:
    three_epochs(state_dir)
    assert "not in it" not in headgate("savepoint", "shop", "quiet").out
    run_here(database)
    assert "what it has done since is not in it" in headgate("savepoint", "shop", "busy").out


@pytest.mark.parametrize("name", ["../x", "", "a b"])
def test_a_savepoint_of_no_name_is_refused(
    headgate: CommandLine, state_dir: Path, name: str
) -> None:
    three_epochs(state_dir)
    refused = headgate("savepoint", "shop", name)
    assert refused.code == 2
    assert "cannot be the name of a savepoint" in refused.err
    assert not (state_dir / "shop" / "savepoints").exists()


def test_a_new_job_begins_at_a_savepoint_of_an_old_one(
    headgate: CommandLine, state_dir: Path
) -> None:
    three_epochs(state_dir)
    headgate("savepoint", "shop", "release")
    for wanted, name, epoch in (("release", "trial", 3), ("2", "earlier", 2)):
        said = start_from(str(state_dir), source="shop", name=name, wanted=wanted)
        assert said == f"job {name} begins at epoch {epoch} of job shop"
        (line,) = headgate("checkpoints", "--job", name, "--json").json["checkpoints"]
        assert (line["epoch"], line["state"]) == (epoch, "ready")
    with pytest.raises(UserError, match="leave out --from"):
        start_from(str(state_dir), source="shop", name="trial", wanted="2")


@pytest.mark.parametrize("name", [None, "shop"])
def test_a_job_is_never_taken_back_under_its_own_name(
    headgate: CommandLine, state_dir: Path, name: str | None
) -> None:
    three_epochs(state_dir)
    (state_dir.parent / "shop.sql").write_text(
        "CREATE TABLE a WITH (connector = 'impulse', event_rate = '1');\nSELECT counter FROM a;\n"
    )
    named = () if name is None else ("--name", name)
    refused = headgate("run", "shop.sql", "--from", "2", *named)
    assert refused.code == 2
    assert "--from starts a job of its own" in refused.err
    assert headgate("checkpoints", "--json").json["newest"] == 3


def test_a_deleted_job_is_gone_from_the_store_and_the_database(
    headgate: CommandLine, state_dir: Path, database: JobStore
) -> None:
    three_epochs(state_dir)
    three_epochs(state_dir, "other")
    done = headgate("jobs", "delete", "shop", "--yes")
    assert done.code == 0, done.err
    assert not (state_dir / "shop").exists()
    assert database.list_job_ids() == []
    assert [job["job"] for job in headgate("jobs", "--json").json] == ["other"]
    assert headgate("jobs", "delete", "shop", "--yes").code == 2


def test_a_job_that_is_run_is_not_deleted(
    headgate: CommandLine, state_dir: Path, database: JobStore
) -> None:
    shop = three_epochs(state_dir)
    before = sorted(shop.folder.rglob("*"))
    run_here(database)
    refused = headgate("jobs", "delete", "shop", "--yes")
    assert refused.code == 2
    assert "is being run by another process: stop it first" in refused.err
    assert sorted(shop.folder.rglob("*")) == before
    assert database.list_job_ids() == [SHOP]


def test_a_job_is_deleted_only_after_a_yes(
    headgate: CommandLine, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = three_epochs(state_dir)
    # Nobody answers.
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        asked = headgate("jobs", "delete", "shop")
    assert asked.code == 1
    assert "Delete all checkpoints and savepoints of job shop" in asked.err
    assert (shop.folder / "epochs").is_dir()
