"""The WITH clause as JSON values, and the options that the planner itself takes."""

from __future__ import annotations

from sqlglot import exp

from headgate.core.durations import format_us
from headgate.core.model import JsonValue
from headgate.planner.errors import error_at
from headgate.planner.intervals import interval_us
from headgate.planner.statements import CreateTable, TableOption


class Options:
    """The options of one table, with the place of each key for the errors."""

    def __init__(self, create: CreateTable) -> None:
        self.name: exp.Expr = create.this
        self.values: dict[str, JsonValue] = {}
        self.keys: dict[str, exp.Expr] = {}
        for option in create.args.get("options") or []:
            assert isinstance(option, TableOption)
            key = option.this.name
            # The last of two equal keys wins.
            self.values[key] = option_value(option.expression)
            self.keys[key] = option.this

    def take_text(self, key: str) -> str | None:
        """Remove and return an option that must be a string."""
        value = self.values.pop(key, None)
        if value is not None and not isinstance(value, str):
            raise error_at(self.keys[key], f"option '{key}' must be a string")
        return value

    def at(self, key: str) -> exp.Expr:
        """Return the node an error about this option should point at."""
        return self.keys.get(key) or self.name

    def blame(self, message: str) -> exp.Expr:
        """Return the option that a connector's message names, or the table's name."""
        for key, node in self.keys.items():
            if f"'{key}'" in message or f"`{key}`" in message:
                return node
        return self.name


def option_value(node: exp.Expr) -> JsonValue:
    """Return the JSON value of what stands right of `=`."""
    if isinstance(node, exp.Literal):
        if node.is_string:
            return str(node.this)
        return float(node.this) if not node.is_int else int(node.this)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg):
        inner = option_value(node.this)
        if isinstance(inner, int | float) and not isinstance(inner, bool):
            return -inner
    if isinstance(node, exp.Interval):
        return format_us(interval_us(node))
    if isinstance(node, exp.Column | exp.Var | exp.Identifier) and not node.args.get("table"):
        return node.name
    if isinstance(node, exp.Array):
        return [option_value(item) for item in node.expressions]
    if isinstance(node, exp.Paren | exp.Tuple):
        items = node.expressions or [node.this]
        return [option_value(item) for item in items]
    raise error_at(node, "an option is a string, number, boolean, interval, name or array")
