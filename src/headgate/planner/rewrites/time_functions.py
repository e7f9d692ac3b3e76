"""Functions of time whose names or units differ from Spark's."""

from __future__ import annotations

from sqlglot import exp

from headgate.planner.errors import error_at
from headgate.planner.functions import function_name
from headgate.planner.intervals import interval_us
from headgate.planner.rewrites.calls import call, string_value

_FROM_NUMBER = {
    "to_timestamp_seconds": "timestamp_seconds",
    "to_timestamp_millis": "timestamp_millis",
    "to_timestamp_micros": "timestamp_micros",
}
# Functions whose first argument may be a unit: `dateadd(DAY, 1, t)`.
_WITH_UNIT = ("dateadd", "date_add", "datediff", "date_diff", "timestampadd", "timestampdiff")
_UNIT_WORDS = "YEAR QUARTER MONTH WEEK DAY DAYOFYEAR HOUR MINUTE SECOND MILLISECOND MICROSECOND"
_UNITS = frozenset(_UNIT_WORDS.split())
# Fields of EXTRACT that Spark has no word for.
_FRACTIONS = {"MILLISECOND": 1_000, "MILLISECONDS": 1_000, "MICROSECOND": 1, "MICROSECONDS": 1}


def rewrite_time(node: exp.Expr) -> exp.Expr:
    name = function_name(node)
    if isinstance(node, exp.Extract):
        return _extract(node)
    if name == "date_bin":
        return _bin(node)
    if name in _FROM_NUMBER:
        argument = node.expressions[0] if node.expressions else None
        if argument is None:
            raise error_at(node, f"{name} needs an argument")
        if string_value(argument) is not None:
            return call("to_timestamp", argument)
        return call(_FROM_NUMBER[name], argument)
    if name in _WITH_UNIT and len(node.expressions) == 3:
        unit = node.expressions[0]
        if isinstance(unit, exp.Column) and not unit.table and unit.name.upper() in _UNITS:
            return call(name, exp.var(unit.name.upper()), *node.expressions[1:])
    if name == "to_timestamp_nanos":
        return call("timestamp_nanos", *node.expressions)
    return node


def _extract(node: exp.Extract) -> exp.Expr:
    field, source = node.name.upper(), node.expression
    if field == "EPOCH":
        return exp.Div(
            this=call("unix_micros", exp.cast(source, "timestamp")),
            expression=exp.Literal.number(1_000_000),
        )
    if field in _FRACTIONS:
        # Seconds with their fraction, as Postgres counts them.
        inner = exp.Mod(
            this=call("unix_micros", exp.cast(source, "timestamp")),
            expression=exp.Literal.number(60_000_000),
        )
        return exp.Div(this=exp.Paren(this=inner), expression=exp.Literal.number(_FRACTIONS[field]))
    if field == "ISODOW":
        return exp.Extract(this=exp.var("DOW_ISO"), expression=source)
    if field == "DOW":
        # Spark counts from Sunday = 1, Postgres from Sunday = 0.
        return exp.Sub(this=call("dayofweek", source), expression=exp.Literal.number(1))
    return node


def _bin(node: exp.Expr) -> exp.Expr:
    """`date_bin(width, time [, origin])`: the start of the time's bin."""
    arguments = node.expressions
    if len(arguments) not in (2, 3):
        raise error_at(node, "date_bin is written date_bin(interval, time [, origin])")
    width = interval_us(arguments[0])
    if width <= 0:
        raise error_at(arguments[0], "the interval of date_bin must be greater than zero")
    time: exp.Expr = call("unix_micros", exp.cast(arguments[1], "timestamp"))
    if len(arguments) == 2:
        rest = call("pmod", time.copy(), width)
        return call("timestamp_micros", exp.Sub(this=time, expression=rest))
    origin = call("unix_micros", exp.cast(arguments[2], "timestamp"))
    offset = exp.Sub(this=time.copy(), expression=origin)
    rest = call("pmod", offset, width)
    return call("timestamp_micros", exp.Sub(this=time, expression=rest))
