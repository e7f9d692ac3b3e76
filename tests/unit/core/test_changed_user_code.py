"""What changed in the user's Python is known from its text, which is never run."""

from __future__ import annotations

import pytest

from headgate.core.user_code import field_changes, same_definition, state_fields

FILE = """
import pyarrow as pa
from headgate.process import ProcessOperator

LIMIT = 3
STAMP = pa.timestamp("us", tz="UTC")

def doubled(x):
    '''Twice.'''
    return helper(x) * 2

def helper(x):
    return x + LIMIT

def other(x):
    return x

class Base(ProcessOperator):
    state_schema = pa.schema([("total", pa.int64()), pa.field("at", STAMP)])

class Sums(Base):
    def process(self, rows, context):
        return None
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("'''Twice.'''", "'''Two times.'''", True),
        ("return helper(x) * 2", "return (helper(x)\n        * 2)  # twice", True),
        ("def other(x):\n    return x", "def other(x):\n    return None", True),
        ("return helper(x) * 2", "return helper(x) * 3", False),
        ("return x + LIMIT", "return x - LIMIT", False),
        ("LIMIT = 3", "LIMIT = 4", False),
        ("import pyarrow as pa", "import pyarrow as pa\nif True:\n    helper = None", False),
    ],
)
def test_a_definition_is_what_it_does_with_all_that_it_uses(old: str, new: str, same: bool) -> None:
    changed = FILE.replace(old, new)
    assert changed != FILE
    assert same_definition(FILE, changed, "doubled") is same


def test_text_that_is_not_python_is_compared_as_it_stands() -> None:
    assert same_definition("class Quiet: one", "class Quiet: one", "Quiet")
    assert not same_definition("class Quiet: one one", "class Quiet: one two", "Quiet")


def test_columns_of_the_state_are_read_through_names_and_bases() -> None:
    expected = {"total": "int64", "at": "timestamp(us, tz=UTC)"}
    assert state_fields(FILE, "Base") == state_fields(FILE, "Sums") == expected
    assert state_fields("class Plain(ProcessOperator): pass", "Plain") == {}
    as_dict = "class A(headgate.ProcessOperator):\n  state_schema = pa.schema({'x': pa.utf8()})"
    assert state_fields(as_dict, "A") == {"x": "string"}


@pytest.mark.parametrize(
    "schema",
    ["made()", "pa.schema(columns)", "pa.schema([(n, pa.int64()) for n in 'ab'])", "SCHEMA"],
)
def test_a_schema_that_is_made_at_run_time_is_not_guessed(schema: str) -> None:
    text = f"class A(ProcessOperator):\n    state_schema = {schema}"
    assert state_fields(text, "A") is None


def test_a_class_of_another_file_may_have_any_schema() -> None:
    assert state_fields("class A(mine.Base): pass", "A") is None
    assert state_fields("A = make()", "A") is None


def test_every_change_of_a_column_is_named() -> None:
    before, after = {"a": "int64", "b": "string"}, {"b": "double", "c": "int64"}
    assert field_changes(before, after) == [
        "'a' is no longer there",
        "'c' (int64) is new",
        "'b' was string and is now double",
    ]
    assert field_changes(before, before) == []
    assert field_changes(before, dict(reversed(before.items()))) == [
        "the columns are in another order"
    ]
