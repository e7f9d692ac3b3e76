"""The examples of docs/state-format.md are records that this version reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headgate.state.protocol import records
from tests.support.state_world import JOB

DOCUMENT = Path(__file__).parents[4] / "docs" / "state-format.md"
EXAMPLES = dict(re.findall(r"^### (\w+)\n.*?```json\n(.*?)```", DOCUMENT.read_text(), re.S | re.M))
KINDS = [
    "CurrentGeneration",
    "GenerationRecord",
    "OperatorCheckpointMetadata",
    "Manifest",
    "EpochRecord",
    "CommittedMarker",
    "SavepointRecord",
]


def test_every_record_has_an_example() -> None:
    assert sorted(EXAMPLES) == sorted(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_is_a_valid_record(kind: str) -> None:
    record = records.decode(
        getattr(records, kind), EXAMPLES[kind].encode(), job=JOB, path="docs/state-format.md"
    )
    # Nothing is left out of the example that a stored record has, but for fields that are empty.
    written = records.encode(record).decode()
    for name in re.findall(r'"(\w+)":', written):
        assert f'"{name}"' in EXAMPLES[kind], name
