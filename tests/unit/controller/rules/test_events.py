"""Every event is thought of: the groups that rules name must not hide one that nobody handles."""

from __future__ import annotations

import ast
import typing
from pathlib import Path

import pytest

from headgate.controller import rules
from headgate.controller.rules.events import (
    IGNORED_EVERYWHERE,
    ActionResult,
    Command,
    Event,
    TakenUp,
    Tick,
)
from headgate.core.messages import WorkerEvent, WorkerMessage

RULES = Path(rules.__path__[0])
EVENTS: tuple[type, ...] = typing.get_args(Event)
GROUPS = (Command, ActionResult, WorkerEvent)


def named_by_rules() -> set[str]:
    """Return the classes that a `case` or an `isinstance` of some rule names."""
    names: set[str] = set()
    for file in [*RULES.glob("*.py"), *(RULES / "states").glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name):
                names.add(node.cls.id)
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                names |= {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
    return names


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_is_named_by_a_rule_or_said_to_be_ignored(event: type) -> None:
    assert (event.__name__ in named_by_rules()) != (event in IGNORED_EVERYWHERE)


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_belongs_to_one_group_or_stands_for_itself(event: type) -> None:
    groups = [group for group in GROUPS if issubclass(event, group)]
    assert len(groups) == (0 if event in (Tick, TakenUp) else 1)


def test_whatever_a_worker_can_say_is_an_event() -> None:
    said, _ = typing.get_args(WorkerMessage)
    assert set(typing.get_args(said)) <= set(EVENTS)


@pytest.mark.parametrize("group", GROUPS)
def test_no_member_of_a_group_is_missing_among_the_events(group: type) -> None:
    def leaves(kind: type) -> set[type]:
        below = kind.__subclasses__()
        return {kind} if not below else {leaf for one in below for leaf in leaves(one)}

    # Classes of tests and of the worker itself are not the controller's.
    ours = {leaf for leaf in leaves(group) if leaf.__module__.startswith("headgate.co")}
    assert ours <= set(EVENTS)
