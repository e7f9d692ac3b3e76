"""What is stored of a job's state, and that it can be read again."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.controller.rules.state import StoredJobState, stored_form
from headgate.core.model import from_python, to_python
from tests.unit.controller.job_under_rules import every_state

STATES = every_state()
# What two fields were called by version 0.1, which had another one besides.
OLD_NAMES = {"running": "live", "shutdown": "drain"}


def as_of_old(document: dict[str, Any]) -> dict[str, Any]:
    old = {OLD_NAMES.get(name, name): value for name, value in document.items()}
    if isinstance(old.get("drain"), dict):
        old["drain"] = as_of_old(old["drain"])
    if isinstance(old.get("live"), dict):
        old["live"] = {**old["live"], "sources_finished": True}
    return old


@pytest.mark.parametrize("name", sorted(STATES))
def test_a_state_is_read_as_it_was_stored(name: str) -> None:
    stored = stored_form(STATES[name].state)
    assert from_python(StoredJobState, to_python(stored, StoredJobState)) == stored


@pytest.mark.parametrize("name", sorted(STATES))
def test_a_state_stored_under_the_old_names_is_taken_up(name: str) -> None:
    stored = stored_form(STATES[name].state)
    document = as_of_old(to_python(stored, StoredJobState))
    assert from_python(StoredJobState, document) == stored


def test_the_old_names_were_used_in_states_with_a_worker() -> None:
    documents = {
        name: as_of_old(to_python(stored_form(world.state), StoredJobState))
        for name, world in STATES.items()
    }
    assert "live" in documents["running"]
    assert documents["rescaling"]["drain"]["live"] is not None
