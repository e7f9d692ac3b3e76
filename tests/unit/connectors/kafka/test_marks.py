"""What is published, by what the target says."""

from __future__ import annotations

import pytest

from headgate.connectors.kafka.marks import Mark, Wanted, is_earlier_state, parts_done
from headgate.core.ids import Epoch, Generation


def mark(life: str, epoch: int, parts: int = 1, before: tuple[str, ...] = ()) -> Mark:
    return Mark(life=life, epoch=Epoch(epoch), parts=parts, generation=Generation(3), before=before)


def wanted(life: str, epoch: int, parts: int = 1) -> Wanted:
    return Wanted(life=life, epoch=Epoch(epoch), parts=parts, generation=Generation(4))


@pytest.mark.parametrize(
    ("found", "asked", "done"),
    [
        (None, wanted("a", 1, 3), 0),
        (mark("a", 6), wanted("a", 7), 0),
        (mark("a", 7), wanted("a", 7), 1),
        (mark("a", 8), wanted("a", 7, 3), 3),
        (mark("a", 7, 2), wanted("a", 7, 3), 2),
        # A new life goes on in the numbers of its state.
        (mark("a", 7), wanted("b", 8), 0),
        # What the old one had to publish came first.
        (mark("b", 8, before=("a",)), wanted("a", 7, 2), 2),
        (mark("b", 8, before=("a",)), wanted("a", 9, 2), 2),
        # A state that was removed, or a worker of a life that nobody knows.
        (mark("a", 7), wanted("b", 7), "foreign"),
        (mark("a", 300), wanted("b", 1), "foreign"),
    ],
)
def test_what_is_done(found: Mark | None, asked: Wanted, done: int | str) -> None:
    assert parts_done(found, asked) == done


def test_a_mark_knows_the_lives_before_it() -> None:
    second = wanted("b", 8).mark(1, mark("a", 7))
    assert (second.life, second.before) == ("b", ("a",))
    third = wanted("b", 9).mark(1, second)
    assert third.before == ("a",)
    assert Mark.parse(third.json()) == third


def test_of_lives_without_number_the_last_hundred_are_known() -> None:
    found = None
    for number in range(150):
        found = wanted(f"life {number}", number).mark(1, found)
    assert found is not None
    assert len(found.before) == 100
    assert found.before[-1] == "life 148"


def test_marks_of_a_later_generation_are_of_a_state_that_was_removed() -> None:
    assert not is_earlier_state(None, Generation(1))
    assert is_earlier_state(mark("a", 7), Generation(3))
    assert not is_earlier_state(mark("a", 7), Generation(4))
