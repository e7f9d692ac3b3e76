"""`python -m bench.scale` works, and what it shows is linear in subtasks: by counts, not times."""

from __future__ import annotations

import pytest

from bench.scale import __main__ as command
from bench.scale import pure
from bench.scale.world import Job

# These grow with the operators, or not at all.
CONSTANT = ("database, writes", "database, bytes of state", "manifest, bytes")
LINEAR = ("acknowledgements", "acks, bytes", "commit, bytes", "metadata, bytes", "start, bytes")
PLANS = ("plan, same, runs", "plan, x 2, runs", "plan, x 1.2, runs")


@pytest.fixture(scope="module")
def measured() -> list[pure.Figures]:
    return [pure.measure(Job(3, subtasks, 2)) for subtasks in (20, 200)]


@pytest.mark.parametrize("name", [*LINEAR, *PLANS])
def test_messages_records_and_plans_are_linear_in_subtasks(
    name: str, measured: list[pure.Figures]
) -> None:
    few, many = (figures.values[name] for figures in measured)
    # Longer numbers in the names are a few bytes more.
    assert many <= 10.3 * few


@pytest.mark.parametrize("name", CONSTANT)
def test_what_is_written_per_checkpoint_does_not_grow(
    name: str, measured: list[pure.Figures]
) -> None:
    few, many = (figures.values[name] for figures in measured)
    assert many <= few * 1.05


def test_a_note_is_bounded(measured: list[pure.Figures]) -> None:
    assert measured[1].values["database, bytes of notes"] < 20_000


def test_the_command_prints_a_table_per_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["pure", "waiting", "--quick"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("| rules, us per ack | ") for line in lines)
    (recorded,) = [line for line in lines if line.startswith("| record, requests |")]
    assert recorded == "| record, requests | 12 | 13 |"
