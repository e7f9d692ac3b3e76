"""A thousand seeds break no promise, and every deliberate bug is noticed.

`make test` runs the first three hundred of them, `make verify` the rest.

`HEADGATE_SIMULATION_SEED=17 pytest tests/simulation -k seed` runs one seed again.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from headgate.controller.rules.state import JobState
from tests.simulation.faults import KINDS
from tests.simulation.mutant import MUTANTS
from tests.simulation.mutants import catch, find_mutants
from tests.simulation.running import PROCESSES, Outcome, report, run, run_seeds
from tests.simulation.world import Setting

ROOT = Path(__file__).parents[2]
ONE_SEED = os.environ.get("HEADGATE_SIMULATION_SEED")
SEEDS = [int(ONE_SEED)] if ONE_SEED else range(300)
MORE_SEEDS = range(300, 1_000)
# Every state that a job can enter: all but the one it begins in.
STATES = sorted({state.kind for state in get_args(JobState)} - {"created"})

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return list(run_seeds(SEEDS))


@pytest.fixture(scope="module")
def happened(outcomes: list[Outcome]) -> Counter[str]:
    if ONE_SEED:
        pytest.skip("says something about many seeds only")
    total: Counter[str] = Counter()
    for outcome in outcomes:
        total.update(outcome.counts)
        total.update(outcome.faults)
    return total


def test_no_seed_breaks_a_promise(outcomes: list[Outcome]) -> None:
    check(outcomes)


@pytest.mark.verify
def test_no_further_seed_breaks_a_promise() -> None:
    check(list(run_seeds(MORE_SEEDS)))


def check(outcomes: list[Outcome]) -> None:
    broken = [outcome for outcome in outcomes if outcome.rule is not None]
    if broken:
        seeds = [outcome.seed for outcome in broken]
        pytest.fail(f"seeds {seeds} break a promise\n{report(broken[0])}", pytrace=False)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_fault_is_injected(kind: str, happened: Counter[str]) -> None:
    assert happened[kind] > 0


@pytest.mark.parametrize("state", STATES)
def test_every_state_is_entered(state: str, happened: Counter[str]) -> None:
    assert happened[f"entered {state}"] > 0


@pytest.mark.parametrize(
    "event",
    [
        "checkpoints recorded",
        "checkpoints aborted",
        "checkpoints declined",
        "checkpoints loaded",
        "checkpoints set aside",
        "cleanups",
        "controllers restarted",
        "files brought back",
        "files published by zombie workers",
        "files published again",
        "micro-batches of zombie workers",
        "micro-batches run again",
        "objects deleted",
        "outputs removed",
        "records dropped as late",
        "savepoints",
        "steps without the lease (two controllers awake)",
    ],
)
def test_everything_the_checks_are_about_happens(event: str, happened: Counter[str]) -> None:
    assert happened[event] > 0


# ---- the same again --------------------------------------------------------------------------


def _digest(seed: int) -> str:
    log = run(Setting(seed=seed, traced=True)).log
    return hashlib.sha256("\n".join(log).encode()).hexdigest()


def test_same_seed_gives_the_same_trace_in_any_process() -> None:
    seeds = range(7)
    here = [_digest(seed) for seed in seeds]
    assert here == [_digest(seed) for seed in seeds]
    program = (
        "from tests.simulation.test_simulation import _digest\n"
        f"print([_digest(seed) for seed in {seeds!r}])"
    )
    other = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert other.stdout.strip() == str(here)


# ---- mutants ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def caught() -> dict[str, Outcome | None]:
    return dict(find_mutants(processes=PROCESSES))


@pytest.mark.verify
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_caught(name: str, caught: dict[str, Outcome | None]) -> None:
    outcome = caught[name]
    assert outcome is not None, f"survives: {MUTANTS[name].wrong}"
    assert outcome.rule != "crashed", outcome.detail


def test_report_of_a_violation_says_how_to_see_it_again() -> None:
    name = "publish_before_record"
    outcome = catch(name)
    assert outcome is not None
    with MUTANTS[name].apply():
        text = report(outcome)
    assert f"seed {outcome.seed} breaks published_unrecorded" in text
    assert "RecordCheckpoint" in text
    assert f"python -m tests.simulation --seed {outcome.seed} --trace" in text
    # Nothing has to go wrong for this one to show.
    assert "faults it needs: none" in text
