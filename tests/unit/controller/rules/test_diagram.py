"""The state diagram in the docs is the one that the rules' annotations say."""

from __future__ import annotations

import itertools

import pytest

from headgate.controller.rules import diagram
from headgate.controller.rules.state import JobState
from tests.unit.controller.job_under_rules import every_state


def test_document_is_current() -> None:
    document = diagram.DOCUMENT.read_text()
    message = "run: python -m headgate.controller.rules.diagram"
    assert diagram.updated(document) == document, message
    assert diagram.main(["--check"]) == 0


def test_every_state_is_drawn_with_its_successors() -> None:
    drawn = diagram.mermaid()
    for name, state in diagram.states().items():
        for successor in diagram.successors(state):
            assert f"    {name} --> {successor}\n" in drawn


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("Recovering", ["Compiling", "Stopping", "Failing"]),
        ("Stopped", ["Restarting"]),
        ("Finished", ["Restarting"]),
        ("Failed", ["Restarting"]),
        ("Failing", ["Restarting", "Failed"]),
    ],
)
def test_successors_are_read_from_the_annotation(state: str, expected: list[str]) -> None:
    assert diagram.successors(diagram.states()[state]) == expected


def test_every_state_but_the_first_can_be_reached() -> None:
    reachable = {s for state in diagram.states().values() for s in diagram.successors(state)}
    assert reachable == set(diagram.states()) - {"Created"}


def test_no_transition_is_taken_that_is_not_drawn() -> None:
    """The roads of all example jobs, checked against the diagram."""
    kinds = {state.kind: name for name, state in diagram.states().items()}
    for world in every_state().values():
        road = ["created", *world.path]
        for before, after in itertools.pairwise(road):
            state: type[JobState] = diagram.states()[kinds[before]]  # type: ignore[assignment]
            assert kinds[after] in diagram.successors(state)
