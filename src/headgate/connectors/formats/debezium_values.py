"""SQL for the values of a change as Debezium's connectors write them.

How a column is written depends on the connector's settings (`time.precision.mode`,
`decimal.handling.mode`). A message with its schema says how; without one the form of the value is
looked at, and an option of the table decides if that is not enough.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    StringType,
    TimestampNTZType,
    VariantType,
)

from headgate.connectors.formats.leaves import is_timestamp, literal
from headgate.connectors.formats.options import SourceFormat

_UNITS = {
    "io.debezium.time.Timestamp": "milliseconds",
    "org.apache.kafka.connect.data.Timestamp": "milliseconds",
    "io.debezium.time.MicroTimestamp": "microseconds",
    "io.debezium.time.NanoTimestamp": "nanoseconds",
}
_BASE64_DECIMAL = "org.apache.kafka.connect.data.Decimal"
# Milliseconds up to the year 5138, microseconds from March 1973 to then, nanoseconds likewise.
_MILLISECONDS_MAX = 10**14
_MICROSECONDS_MAX = 10**17


def read_as(kind: DataType) -> DataType:
    """Return the type with which Spark parses a value of a column of `kind`.

    A decimal keeps its JSON form (a variant): 1234 is a number, and "1234" may be base64.
    """
    if is_timestamp(kind) or isinstance(kind, DateType):
        return StringType()
    return VariantType() if isinstance(kind, DecimalType) else kind


@dataclass(frozen=True)
class ColumnHints:
    """What is known of how a column is written: SQL for what the message's schema says of it."""

    options: SourceFormat
    # SQL for the name of the column's type, and for the scale of its decimals; null if unknown.
    type_name: str = "CAST(NULL AS STRING)"
    scale: str = "CAST(NULL AS INT)"


def value_sql(expr: str, kind: DataType, hints: ColumnHints) -> str | None:
    """Return SQL for the typed value of a leaf, null if it is none; None to leave it as it is."""
    if is_timestamp(kind):
        parsed = timestamp_sql(expr, hints)
        return f"CAST({parsed} AS TIMESTAMP_NTZ)" if isinstance(kind, TimestampNTZType) else parsed
    if isinstance(kind, DateType):
        return date_sql(expr)
    return decimal_sql(expr, kind, hints) if isinstance(kind, DecimalType) else None


def given_sql(expr: str, kind: DataType) -> str:
    """Return SQL that is true if there is a value, readable or not."""
    null = f" AND NOT is_variant_null({expr})" if isinstance(kind, DecimalType) else ""
    return f"({expr} IS NOT NULL{null})"


def timestamp_sql(text: str, hints: ColumnHints) -> str:
    """A number since 1970, or a text as RFC 3339 (ZonedTimestamp); without a zone it is UTC."""
    number = f"try_cast({text} AS BIGINT)"
    # A failing cast throws inside, which is slow: so the form is looked at first.
    return (
        f"CASE WHEN {text} RLIKE '^-?[0-9]{{1,19}}$' THEN {_moment(number, hints)} "
        f"WHEN {text} RLIKE '^[0-9]{{4,6}}-' THEN try_cast({text} AS TIMESTAMP) END"
    )


def _moment(number: str, hints: ColumnHints) -> str:
    fixed = hints.options.debezium_time_unit
    if fixed is not None:
        return _in_unit(number, fixed)
    said = " ".join(f"WHEN {literal(name)} THEN {literal(unit)}" for name, unit in _UNITS.items())
    unit = (
        f"coalesce(CASE {hints.type_name} {said} END, "
        f"CASE WHEN {_below(number, _MILLISECONDS_MAX)} THEN 'milliseconds' "
        f"WHEN {_below(number, _MICROSECONDS_MAX)} THEN 'microseconds' END)"
    )
    return (
        f"CASE {unit} WHEN 'milliseconds' THEN {_in_unit(number, 'milliseconds')} "
        f"WHEN 'microseconds' THEN {_in_unit(number, 'microseconds')} "
        f"ELSE {_in_unit(number, 'nanoseconds')} END"
    )


def _in_unit(number: str, unit: str) -> str:
    if unit == "milliseconds":
        # More would not fit into microseconds.
        return f"IF({_below(number, 9 * 10**15)}, timestamp_millis({number}), NULL)"
    if unit == "microseconds":
        return f"timestamp_micros({number})"
    return f"timestamp_micros(({number} - pmod({number}, 1000L)) div 1000L)"


def _below(number: str, limit: int) -> str:
    return f"{number} BETWEEN {-limit + 1}L AND {limit - 1}L"


def date_sql(text: str) -> str:
    """Days since 1970, or a text."""
    return (
        f"CASE WHEN {text} RLIKE '^-?[0-9]{{1,7}}$' "
        f"THEN date_add(DATE '1970-01-01', try_cast({text} AS INT)) "
        f"WHEN {text} RLIKE '^[0-9]{{4,6}}-' THEN try_cast(rtrim('Z', {text}) AS DATE) END"
    )


def decimal_sql(expr: str, kind: DecimalType, hints: ColumnHints) -> str:
    """A number, its text, the base64 of its bytes, or a VariableScaleDecimal."""
    target = f"DECIMAL({kind.precision}, {kind.scale})"
    text = f"try_variant_get({expr}, '$', 'string')"
    # The value of a VariableScaleDecimal is null in everything else.
    variable = f"try_variant_get({expr}, '$.value', 'string')"
    scale = f"coalesce(try_variant_get({expr}, '$.scale', 'int'), {hints.scale}, {kind.scale})"
    is_text = f"schema_of_variant({expr}) = 'STRING'"
    of_base64 = _of_base64(f"coalesce({variable}, {text})", scale, target)
    unclear = f"WHEN {is_text} AND {_is_unclear(text, hints)} THEN NULL " if kind.scale == 0 else ""
    return (
        f"CASE {unclear}"
        f"WHEN {variable} IS NOT NULL OR ({is_text} AND {_is_base64(text, hints)}) "
        f"THEN {of_base64} ELSE try_variant_get({expr}, '$', '{target}') END"
    )


def _is_base64(text: str, hints: ColumnHints) -> str:
    """Return SQL that tells base64 (true) from the text of a number.

    Digits alone can be either. A connector that writes texts writes the point too, if the column
    has a scale, so they are base64.
    """
    match hints.options.debezium_decimals:
        case "base64":
            return "true"
        case "text":
            return "false"
        case None:
            return (
                f"({_says_base64(hints)} "
                f"OR NOT {text} RLIKE '^(-[0-9]+|-?[0-9]*[.][0-9]+|[0-9]+)$' OR {_digits(text)})"
            )


def _is_unclear(text: str, hints: ColumnHints) -> str:
    """Return SQL that is true if nobody can tell: digits alone, for a column without a scale."""
    if hints.options.debezium_decimals is not None:
        return "false"
    return f"NOT {_says_base64(hints)} AND {_digits(text)}"


def _says_base64(hints: ColumnHints) -> str:
    return f"coalesce({hints.type_name} = '{_BASE64_DECIMAL}', false)"


def _digits(text: str) -> str:
    # Base64 comes in groups of four.
    return f"({text} RLIKE '^[0-9]+$' AND length({text}) % 4 = 0)"


def _of_base64(text: str, scale: str, target: str) -> str:
    """Return SQL for the decimal whose unscaled value is in base64: big-endian, two's complement.

    Spark has no function for it, so it is summed up from parts of 32 bits. A negative number is the
    complement of its bits, plus one.
    """
    negative = "h >= '8'"
    bits = f"IF({negative}, translate(h, '0123456789ABCDEF', 'FEDCBA9876543210'), h)"
    part = f"CAST(conv(substr(lpad({bits}, 32, '0'), i, 8), 16, 10) AS DECIMAL(10, 0))"
    magnitude = (
        "aggregate(array(1, 9, 17, 25), CAST(0 AS DECIMAL(38, 0)), "
        f"(a, i) -> try_add(try_multiply(a, 4294967296BD), {part}), "
        f"a -> try_add(a, IF({negative}, 1BD, 0BD)))"
    )
    signed = f"concat(IF({negative}, '-', ''), {magnitude}, 'E', -({scale}))"
    number = f"IF(length(h) BETWEEN 2 AND 32, try_cast({signed} AS {target}), NULL)"
    # A lambda, so that the bytes have a name.
    return f"element_at(transform(array(hex(try_to_binary({text}, 'base64'))), h -> {number}), 1)"
