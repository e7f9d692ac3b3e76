"""SQL over the state tables of a checkpoint, with Polars.

Tables are read only as far as a query needs them: columns and conditions are applied to each piece
as it is read, so a question about a few rows does not load the whole state.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headgate.core.errors import HeadgateError, SqlError, UserError
from headgate.state.inspection.logical import SUBTASK, LogicalTable, StateReader
from headgate.state.tables.rows import HASH, TIME

if TYPE_CHECKING:
    import polars as pl

HIDDEN = (HASH, SUBTASK)
# Columns that hold microseconds, besides `_time`: (operator kind, table) -> names.
_TIMES = {
    ("window_aggregate", "sessions"): ("_start", "_end"),
    ("window_aggregate", "rows"): ("_at",),
    ("process", "timers"): ("_at",),
}
# What asks and changes nothing. Polars would take DELETE and DROP, too, and answer as if it had
# done so: to a checkpoint nothing happens, and nobody shall believe otherwise.
_QUESTIONS = ("SELECT", "WITH", "FROM", "VALUES", "SHOW", "EXPLAIN")
_COMMENTS = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"\w+")
_POSITION = re.compile(r" at Line: (\d+), Column: (\d+)")


@dataclass(frozen=True)
class NamedTable:
    """A table with its names in SQL: the full one first, then shorter ones that are unique."""

    names: tuple[str, ...]
    table: LogicalTable

    def columns(self, *, hidden: bool) -> pa.Schema:
        """Return the columns as a query sees them: times are timestamps."""
        fields = [
            pa.field(field.name, _shown_type(self.table, field))
            for field in self.table.schema
            if hidden or field.name not in HIDDEN
        ]
        return pa.schema(fields)


def named_tables(tables: Sequence[LogicalTable]) -> tuple[NamedTable, ...]:
    """Give every table its names.

    The full name is made of the operator's id and the table's name (`window_f81be53e_bins`); where
    only one table is meant by them, `window_bins` and `bins` do as well.
    """
    wanted = [_names(table) for table in tables]
    claims = Counter(name for names in wanted for name in set(names))
    full = Counter(names[0] for names in wanted)
    result = []
    for position, (table, names) in enumerate(zip(tables, wanted, strict=True)):
        # Ids that differ only in their punctuation: a number tells them apart.
        first = names[0] if full[names[0]] == 1 else f"{names[0]}_{position + 1}"
        short = dict.fromkeys(name for name in names[1:] if claims[name] == 1 and name != first)
        result.append(NamedTable((first, *short), table))
    return tuple(result)


def _names(table: LogicalTable) -> tuple[str, str, str]:
    operator = _identifier(table.operator)
    kind = _identifier(table.operator.partition("-")[0])
    return f"{operator}_{table.name}", f"{kind}_{table.name}", table.name


def _identifier(text: str) -> str:
    return re.sub(r"\W+", "_", text)


def run_query(
    reader: StateReader,
    tables: Sequence[NamedTable],
    sql: str,
    *,
    hidden: bool = False,
    rows_max: int | None = None,
) -> pl.DataFrame:
    """Return the answer. Raises `SqlError` for what is no query, or if Polars refuses the text."""
    _refuse_statements(sql)
    try:
        import polars as pl
    except ModuleNotFoundError as error:
        raise UserError(
            "SQL over the state needs Polars: pip install 'headgate[inspect]'",
            code="polars_missing",
        ) from error

    sources = [_Source(reader, named, hidden) for named in tables]
    context = pl.SQLContext(
        {name: source.frame() for source in sources for name in source.named.names}
    )
    try:
        lazy = context.execute(sql, eager=False)
        return (lazy if rows_max is None else lazy.head(rows_max)).collect()
    except pl.exceptions.PolarsError as error:
        # What went wrong while a table was read arrives here as the failure of the query.
        for source in sources:
            if source.failure is not None:
                raise source.failure from error
        raise _refused(error, tables, hidden) from error


def _refuse_statements(sql: str) -> None:
    """Raise `SqlError` unless the text begins as a question does."""
    begins = _COMMENTS.match(sql)
    offset = 0 if begins is None else begins.end()
    word = _WORD.match(sql, offset)
    if word is not None and word[0].upper() in _QUESTIONS:
        return
    line, column = sql.count("\n", 0, offset) + 1, offset - sql.rfind("\n", 0, offset)
    found = "no query" if word is None else f"'{word[0]}' is no query"
    raise SqlError(
        f"line {line}, column {column}: {found}: a checkpoint can be asked and never changed; write"
        " SELECT ..., or see the tables and their columns with `headgate state --tables`",
        line=line,
        column=column,
    )


class _Source:
    """One table as a source of Polars: reads when asked, and only what is asked for."""

    def __init__(self, reader: StateReader, named: NamedTable, hidden: bool) -> None:
        self._reader = reader
        self.named = named
        self._schema = named.columns(hidden=hidden)
        self.failure: HeadgateError | None = None

    def frame(self) -> pl.LazyFrame:
        import polars as pl
        from polars.io.plugins import register_io_source

        empty = pl.DataFrame(pl.from_arrow(self._schema.empty_table()))
        return register_io_source(self._read, schema=empty.schema)

    def _read(
        self,
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        try:
            yield from self._frames(with_columns, predicate, n_rows)
        except HeadgateError as error:
            self.failure = error
            raise

    def _frames(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None
    ) -> Iterator[pl.DataFrame]:
        import polars as pl

        left = n_rows
        for batch in self._reader.rows(self.named.table):
            frame = pl.DataFrame(pl.from_arrow(self._as_shown(batch)))
            if predicate is not None:
                frame = frame.filter(predicate)
            if with_columns is not None:
                frame = frame.select(with_columns)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame
            if left == 0:
                return

    def _as_shown(self, batch: pa.RecordBatch) -> pa.Table:
        columns = {}
        for field in self._schema:
            column = batch.column(field.name)
            columns[field.name] = column if column.type == field.type else column.cast(field.type)
        return pa.table(columns, schema=self._schema)


def _shown_type(table: LogicalTable, field: pa.Field) -> pa.DataType:
    times = (TIME, *_TIMES.get((table.operator_kind, table.name), ()))
    if field.name in times and pa.types.is_int64(field.type):
        return pa.timestamp("us", tz="UTC")
    return field.type


def _refused(error: Exception, tables: Sequence[NamedTable], hidden: bool) -> SqlError:
    message = str(error).partition("\n")[0].removeprefix("sql parser error: ")
    place = _POSITION.search(message)
    if "relation" in message:
        known = ", ".join(named.names[-1] for named in tables) or "none"
        message += f"; the tables of this checkpoint are: {known}"
    elif not hidden and any(name in message for name in HIDDEN):
        message += "; --hidden shows the columns that are otherwise left out"
    if place is None:
        return SqlError(message)
    text = _POSITION.sub("", message)
    return SqlError(
        f"line {place[1]}, column {place[2]}: {text}", line=int(place[1]), column=int(place[2])
    )


def plain_rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows with times as text: Python has no datetime for the end of all data."""
    import polars.selectors as cs

    return frame.with_columns(cs.datetime().dt.to_string("iso:strict")).to_dicts()
