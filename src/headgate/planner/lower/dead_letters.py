"""`bad_data = 'some_sink'`: the rows that a source cannot read go to a table of the pipeline."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headgate.core.graph import TIMESTAMP_COLUMN
from headgate.operators.dead_letters.draft import DeadLettersDraft
from headgate.operators.dead_letters.spec import LETTER_COLUMNS
from headgate.operators.sink.draft import SinkDraft
from headgate.operators.source.draft import SourceDraft
from headgate.planner.catalog import Catalog, ConnectorTable
from headgate.planner.errors import error_at
from headgate.planner.statements import CreateTable, TableOption

OPTION = "bad_data"
# What becomes of bad rows without a table. These words win over tables of such names.
WORDS = ("fail", "drop")
_SHAPE = "any of raw TEXT, reason TEXT, source TEXT, position TEXT, at TIMESTAMP"
_TYPE_NAMES = {"string": "TEXT", "timestamp": "TIMESTAMP"}


def names_table(table: ConnectorTable) -> str | None:
    """Return the dead-letter table that a source names."""
    wanted = table.options.get(OPTION)
    if table.role != "source" or not isinstance(wanted, str) or wanted in WORDS:
        return None
    return wanted


def check_dead_letters(catalog: Catalog, creates: Sequence[CreateTable]) -> None:
    """Refuse sources whose dead-letter table is none, at the option that names it.

    Asked when everything is declared: a sink may be declared behind the sources that name it.
    """
    for create in creates:
        table = catalog.find(create.this.name)
        if isinstance(table, ConnectorTable):
            name = names_table(table)
            if name is not None:
                _check(catalog, name, _option(create))


def dead_letter_sinks(catalog: Catalog, sources: Sequence[SourceDraft]) -> list[SinkDraft]:
    """Return a sink for the bad rows of each source that is read and names a table for them."""
    sinks = []
    for source in sources:
        name = names_table(source.table)
        target = catalog.find(name) if name is not None else None
        if isinstance(target, ConnectorTable):
            sinks.append(_sink(source, target))
    return sinks


def _option(create: CreateTable) -> exp.Expr | None:
    # The last of two equal keys wins.
    for option in reversed(create.args.get("options") or []):
        if isinstance(option, TableOption) and option.this.name == OPTION:
            value: exp.Expr = option.expression
            return value
    return None


def _check(catalog: Catalog, name: str, at: exp.Expr | None) -> None:
    target = catalog.find(name)
    if not isinstance(target, ConnectorTable) or target.role != "sink":
        sinks = [
            t.name
            for t in catalog.tables.values()
            if isinstance(t, ConnectorTable) and t.role == "sink"
        ]
        what = "is not declared" if target is None else "is no sink"
        raise error_at(
            at,
            f"option 'bad_data' is 'fail', 'drop' or the name of a sink table, and '{name}' "
            f"{what} (sinks: {', '.join(sinks) or 'none'})",
        )
    for column in target.declared():
        wanted = LETTER_COLUMNS.get(column.name.lower())
        if wanted is None:
            raise error_at(
                at,
                f"sink '{target.name}' cannot take rows that cannot be read: it has a column "
                f"'{column.name}', and may have {_SHAPE}",
            )
        if column.type != wanted:
            raise error_at(
                at,
                f"sink '{target.name}' cannot take rows that cannot be read: its column "
                f"'{column.name}' is {_type_name(column.type)}, and must be {_TYPE_NAMES[wanted]}",
            )


def _type_name(kind: str) -> str:
    return _TYPE_NAMES.get(kind, kind.upper())


def _sink(source: SourceDraft, target: ConnectorTable) -> SinkDraft:
    declared = [c.name for c in target.declared()] or list(LETTER_COLUMNS)
    columns = {name: name.lower() for name in declared}
    types: dict[str, str | None] = {n: LETTER_COLUMNS[what] for n, what in columns.items()}
    letters = DeadLettersDraft(
        inputs=[source],
        types={**types, TIMESTAMP_COLUMN: "timestamp"},
        table=source.table.name,
        columns=columns,
    )
    return SinkDraft(
        inputs=[letters], types=dict(letters.types), table=target, names=tuple(declared)
    )
