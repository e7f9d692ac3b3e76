"""What Spark takes and returns, as it was asked: see `tests/support/function_facts.py`.

An answer is one character: the letter of the result's type, `-` if Spark refuses these types, `?`
if it says neither.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

FACTS_FILE = Path(__file__).with_name("facts.json")

# The types that Spark was asked about. `Q` is a text that is written out: Spark casts it.
LETTERS = {
    "B": "boolean",
    "I": "int",
    "L": "bigint",
    "D": "double",
    "N": "decimal(10,2)",
    "S": "string",
    "Y": "binary",
    "A": "date",
    "T": "timestamp",
    "J": "array<int>",
    "R": "array<string>",
    "M": "map<string,string>",
    "U": "struct<a:int>",
    "V": "interval day to second",
    "Q": "'1'",
}
_ALL = "".join(LETTERS)
_PLACE = {letter: number for number, letter in enumerate(_ALL)}
# How many arguments were tried: a function that takes so many takes any number.
ARITY_MAX = 9

# Calls that are syntax, that do something when they are only looked at, or that need a package.
NOT_ASKED = frozenset(
    {"cast", "reflect", "java_method", "try_reflect", "measure", "python_worker_logs"}
    | {"from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf"}
)

_BINARY = ("+", "-", "*", "/", "%", "div", "=", "<>", "<", "<=", ">", ">=", "<=>")
_MORE_BINARY = ("AND", "OR", "||", "LIKE", "RLIKE", "&", "|", "^")
_CASTS = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)"),
    *("string", "binary", "date", "timestamp", "array<int>", "array<string>"),
    *("map<string,string>", "struct<a:int>", "interval day to second"),
)
# What is no function in Spark, with its places for operands. `WHERE` is any condition.
OPERATORS = {
    **{sign: f"{{}} {sign} {{}}" for sign in (*_BINARY, *_MORE_BINARY)},
    "negative": "- {}",
    "NOT": "NOT {}",
    "WHERE": "CASE WHEN {} THEN 1 END",
    **{f"CAST {kind}": f"CAST({{}} AS {kind})" for kind in _CASTS},
}

# The letters of the types that an expression may have; None if nothing is known of it.
Letters = str | None
_NUMBERS = "ILDN"
# Types whose parts depend on those of the arguments.
_COMPOSED = frozenset("JRMUN")


def letters_of(kind: str | None) -> Letters:
    """Return what a type counts as. One that Spark was not asked about is not known."""
    if kind is None:
        return None
    if kind.startswith("decimal"):
        return "N"
    if kind.startswith("struct"):
        return "U"
    if kind in ("tinyint", "smallint", "float"):
        return _NUMBERS
    return _BY_KIND.get(kind)


_BY_KIND = {kind: letter for letter, kind in LETTERS.items() if letter != "Q"}


@lru_cache(maxsize=1)
def _facts() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(FACTS_FILE.read_text())
    return loaded


def arity(name: str) -> frozenset[int] | None:
    """Return how many arguments a function takes; None if that is not known."""
    found = _facts()["functions"].get(name, {}).get("arity")
    return frozenset(found) if found else None


def answers_of_function(name: str, arguments: Sequence[Letters]) -> str:
    """Return what Spark may answer to a call: `-` alone means that it refuses it."""
    found = _facts()["functions"].get(name, {})
    told = found.get(str(len(arguments)))
    if told is not None:
        return _answers(told, arguments)
    returns = found.get("returns", {})
    if str(len(arguments)) in returns:
        return str(returns[str(len(arguments))])
    # A function of many arguments that returned one type for one, two and three of them.
    kinds = set(returns.values())
    takes_many = len(arguments) > 3 and ARITY_MAX in found.get("arity", ())
    return kinds.pop() if takes_many and "3" in returns and len(kinds) == 1 else "?"


def answers_of_operator(sign: str, operands: Sequence[Letters]) -> str:
    """Return what Spark may answer to an operator; `?` for one that it was not asked about."""
    told = _facts()["operators"].get(sign)
    return "?" if told is None else _answers(told, operands)


def _answers(told: str, arguments: Sequence[Letters]) -> str:
    found = set(told) if len(told) == 1 else set()
    for combination in product(*(letters or _ALL for letters in arguments)) if not found else ():
        place = 0
        for letter in combination:
            place = place * len(_ALL) + _PLACE[letter]
        found.add(told[place])
    if None not in arguments:
        return "".join(sorted(found))
    # Spark knows more types than it was asked about: what is not known is never refused.
    kinds = found - {"-"}
    return kinds.pop() if len(kinds) == 1 and not kinds & _COMPOSED else "?"


def taken_alone(name: str) -> list[str]:
    """Return the types that a function of one argument takes."""
    told = _facts()["functions"].get(name, {}).get("1", "")
    return [
        LETTERS[letter]
        for letter, answer in zip(_ALL, told, strict=False)
        if answer != "-" and letter != "Q"
    ]
