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
    StructField,
    StructType,
    TimestampNTZType,
    VariantType,
)

from headgate.connectors.formats.leaves import is_timestamp, literal
from headgate.connectors.formats.options import SourceFormat

# A number of up to 14 digits is milliseconds (to the year 5138), of up to 17 microseconds (from
# March 1973 to then), and of more nanoseconds. A type that the schema names stands for digits.
_MILLISECONDS_DIGITS = 14
_MICROSECONDS_DIGITS = 17
_NANOSECONDS_DIGITS = 19
_DIGITS = {
    "io.debezium.time.Timestamp": _MILLISECONDS_DIGITS,
    "org.apache.kafka.connect.data.Timestamp": _MILLISECONDS_DIGITS,
    "io.debezium.time.MicroTimestamp": _MICROSECONDS_DIGITS,
    "io.debezium.time.NanoTimestamp": _NANOSECONDS_DIGITS,
}
_BASE64_DECIMAL = "org.apache.kafka.connect.data.Decimal"

# What a message's schema says of a column: as it is written, and (SQL over `f`) as it is used.
HINT = StructType(
    [
        StructField("field", StringType()),
        StructField("name", StringType()),
        StructField("parameters", StructType([StructField("scale", StringType())])),
    ]
)
_DIGITS_SQL = " ".join(f"WHEN {literal(name)} THEN {digits}" for name, digits in _DIGITS.items())
HINT_SQL = (
    f"named_struct('digits', CASE f.name {_DIGITS_SQL} END, "
    f"'base64', f.name = '{_BASE64_DECIMAL}', "
    "'scale', try_cast(f.parameters.scale AS INT))"
)


def read_as(kind: DataType) -> DataType:
    """Return the type with which Spark parses a value of a column of `kind`.

    A decimal keeps its JSON form (a variant): 1234 is a number, and "1234" may be base64.
    """
    if is_timestamp(kind) or isinstance(kind, DateType):
        return StringType()
    return VariantType() if isinstance(kind, DecimalType) else kind


@dataclass(frozen=True)
class ColumnHints:
    """What is known of how a column is written."""

    options: SourceFormat
    # SQL for what the message's schema says of the column, null if nothing; None = not asked.
    said: str | None = None


def uses_hints(field: StructField, options: SourceFormat) -> bool:
    """Return whether what a message's schema says of a column is looked at."""
    kind = field.dataType
    by_unit = is_timestamp(kind) and options.debezium_time_unit is None
    return by_unit or isinstance(kind, DecimalType)


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
    # A failing cast throws inside, which is slow: so the form is looked at first.
    return (
        f"CASE WHEN {text} RLIKE '^-?[0-9]{{1,19}}$' THEN timestamp_micros({_micros(text, hints)}) "
        f"WHEN {text} RLIKE '^[0-9]{{4,6}}-' THEN try_cast({text} AS TIMESTAMP) END"
    )


def _micros(text: str, hints: ColumnHints) -> str:
    number = f"try_cast({text} AS BIGINT)"
    # Null if they are too many; rounded down, also before 1970.
    of_milliseconds = f"try_multiply({number}, 1000L)"
    of_nanoseconds = f"try_subtract({number}, pmod({number}, 1000L)) div 1000L"
    match hints.options.debezium_time_unit:
        case "milliseconds":
            return of_milliseconds
        case "microseconds":
            return number
        case "nanoseconds":
            return of_nanoseconds
        case None:
            digits = f"length(ltrim('-', {text}))"
            if hints.said is not None:
                digits = f"coalesce({hints.said}.digits, {digits})"
            return (
                f"CASE WHEN {digits} <= {_MILLISECONDS_DIGITS} THEN {of_milliseconds} "
                f"WHEN {digits} <= {_MICROSECONDS_DIGITS} THEN {number} ELSE {of_nanoseconds} END"
            )


def date_sql(text: str) -> str:
    """Days since 1970, or a text."""
    return (
        f"CASE WHEN {text} RLIKE '^-?[0-9]{{1,7}}$' "
        f"THEN date_from_unix_date(try_cast({text} AS INT)) "
        f"WHEN {text} RLIKE '^[0-9]{{4,6}}-' THEN try_cast(rtrim('Z', {text}) AS DATE) END"
    )


def decimal_sql(expr: str, kind: DecimalType, hints: ColumnHints) -> str:
    """A number, its text, the base64 of its bytes, or a VariableScaleDecimal."""
    target = f"DECIMAL({kind.precision}, {kind.scale})"
    said = "" if hints.said is None else f"{hints.said}.scale, "
    scale = f"coalesce(try_variant_get({expr}, '$.scale', 'int'), {said}{kind.scale})"
    number = (
        f"CASE WHEN h IS NULL THEN try_cast(t AS {target}) WHEN h = '' THEN NULL "
        f"WHEN length(h) <= 32 THEN try_cast(concat({_UNSCALED}, 'E', -({scale})) AS {target}) END"
    )
    return _let(
        "t", f"try_variant_get({expr}, '$', 'string')", _let("h", _bytes(expr, kind, hints), number)
    )


def _bytes(expr: str, kind: DecimalType, hints: ColumnHints) -> str:
    """Return SQL for the bytes in hex of a value whose text is `t`.

    They are null if the text is that of a number, and empty if nobody can tell. Texts with a point
    or a sign are no base64. Digits alone can be, in groups of four. A connector that writes texts
    writes the point too, if the column has a scale, so they are base64 then.
    """
    variable = _hex(f"try_variant_get({expr}, '$.value', 'string')")
    cases = "CASE WHEN t RLIKE '^[0-9E+]*[-.]' THEN NULL "
    cases += f"WHEN startswith(t, '{{') THEN {variable} "
    if hints.options.debezium_decimals == "text":
        return f"{cases} END"
    cases += f"WHEN schema_of_variant({expr}) <> 'STRING' THEN NULL "
    if hints.options.debezium_decimals is None:
        digits = "t RLIKE '^[0-9]+$'"
        if hints.said is not None:
            digits = f"NOT coalesce({hints.said}.base64, false) AND {digits}"
        cases += f"WHEN {digits} AND length(t) % 4 <> 0 THEN NULL "
        if kind.scale == 0:
            cases += f"WHEN {digits} THEN '' "
    return f"{cases} ELSE {_hex('t')} END"


def _hex(text: str) -> str:
    return f"hex(try_to_binary({text}, 'base64'))"


def _let(name: str, value: str, body: str) -> str:
    """Return SQL for `body`, in which `value` has a name: it is computed once."""
    return f"get(transform(array({value}), {name} -> {body}), 0)"


def _unscaled() -> str:
    """Return SQL for the number in the bytes `h` (hex): big-endian, two's complement, at most 16.

    Up to 8 bytes are a number of Spark's; more are two halves. There a negative number is the
    complement of its bits, plus one: the upper half alone may have more than 38 digits.
    """
    is_negative = "h >= '8'"
    short = f"conv(lpad(h, 16, IF({is_negative}, 'F', '0')), 16, -10)"
    bits = f"IF({is_negative}, translate(h, '0123456789ABCDEF', 'FEDCBA9876543210'), h)"
    upper, lower = (f"conv(substr(b, {at}, 16), 16, 10)" for at in (1, 17))
    magnitude = (
        f"try_add(try_add(try_multiply(CAST({upper} AS DECIMAL(38, 0)), {2**64}BD), "
        f"CAST({lower} AS DECIMAL(20, 0))), IF({is_negative}, 1BD, 0BD))"
    )
    long = _let("b", f"lpad({bits}, 32, '0')", f"concat(IF({is_negative}, '-', ''), {magnitude})")
    return f"IF(length(h) <= 16, {short}, {long})"


_UNSCALED = _unscaled()
