"""The words of the refusals."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headgate.planner.typecheck.facts import ARITY_MAX, taken_alone

_LISTED_MAX = 6


def wrong_count(name: str, counts: Collection[int], given: int) -> str:
    """`upper() takes 1 argument, but 2 are given`."""
    return f"{name}() takes {_counts(sorted(counts))}, but {given or 'none'} {_be(given)} given"


def _be(count: int) -> str:
    return "is" if count <= 1 else "are"


def _counts(counts: Sequence[int]) -> str:
    if list(counts) == [0]:
        return "no arguments"
    if counts[-1] == ARITY_MAX - 1 and all(count % 2 == 0 for count in counts):
        return "an even number of arguments"
    if counts[-1] == ARITY_MAX:
        return "any number of arguments" if counts[0] == 0 else f"at least {_some(counts[0])}"
    listed = [str(count) for count in counts]
    if len(listed) == 1:
        return _some(counts[0])
    return f"{', '.join(listed[:-1])} or {listed[-1]} arguments"


def _some(count: int) -> str:
    return f"{count} argument" if count == 1 else f"{count} arguments"


def not_an_argument(name: str, shown: Sequence[str]) -> str:
    """`sum() does not take BOOLEAN: it takes INT, ...`."""
    if len(shown) > 1:
        return f"{name}() does not take {' and '.join(shown)} together: convert one with CAST"
    taken = [kind.upper().replace("STRING", "TEXT") for kind in taken_alone(name)]
    if not taken or len(taken) > _LISTED_MAX:
        return f"{name}() does not take {shown[0]}"
    return f"{name}() does not take {shown[0]}: it takes {', '.join(taken)}"


def not_an_operand(sign: str, shown: Sequence[str]) -> str:
    """`+ does not take BIGINT and TEXT[]`."""
    word = "-" if sign == "negative" else sign
    hint = ": convert one with CAST" if len(shown) > 1 else ""
    return f"{word} does not take {' and '.join(shown)}{hint}"


def not_a_number(text: str, sign: str, shown: str) -> str:
    """`'north' is no number, but = compares it with BIGINT`."""
    return f"'{text}' is no number, but stands beside {shown} at {sign}"


def text_as_number(name: str, why: str) -> str:
    """`shop is TEXT, and + computes with numbers: write CAST(shop AS BIGINT)`."""
    return f"'{name}' is TEXT, and {why}: write CAST({name} AS BIGINT) if it holds numbers"


def no_field(name: str, names: Sequence[str]) -> str:
    """`no field 'x' (fields: a, b)`."""
    return f"the struct has no field '{name}' (fields: {', '.join(names)})"
