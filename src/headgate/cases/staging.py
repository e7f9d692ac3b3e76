"""A case made ready: its pipeline planned, its rows as lines, its tables found by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from headgate.cases.comparing import as_time
from headgate.cases.declared import declared_columns
from headgate.cases.document import (
    RESULT,
    Case,
    CaseFileError,
    ExpectedRows,
    Given,
    GivenRows,
    LocatedCase,
    Step,
)
from headgate.cases.lines import Line, TableShape, lines_of, lookup_shape, source_shape
from headgate.cases.script import ScriptStep
from headgate.core.durations import parse_nanoseconds
from headgate.core.graph import PipelineGraph
from headgate.core.ids import OperatorId
from headgate.core.suggestions import closest
from headgate.operators import LookupJoinSpec, SinkSpec, SourceSpec
from headgate.planner import plan

# What reads a pipeline's file: path, the file of its functions -> SQL, the text of the functions.
ReadPipeline = Callable[[Path, Path | None], tuple[str, str | None]]
ReadText = Callable[[Path, str], str]

# Where no time is said: 2024-01-01 00:00:00 UTC.
NOW = "2024-01-01T00:00:00Z"


@dataclass(frozen=True)
class StagedSource:
    """A source of the graph, with its rows step by step."""

    shape: TableShape
    steps: tuple[list[Line], ...]


@dataclass(frozen=True)
class Wanted:
    """What the sinks of one table must hold after a step; step None = in the end."""

    step: int | None
    table: str
    sinks: tuple[OperatorId, ...]
    rows: ExpectedRows


@dataclass(frozen=True)
class StagedCase:
    """Everything that a run needs."""

    located: LocatedCase
    sql: str
    graph: PipelineGraph
    sources: dict[OperatorId, StagedSource]
    lookups: dict[OperatorId, tuple[TableShape, list[Line]]]
    sinks: dict[OperatorId, SinkSpec]
    steps: tuple[ScriptStep, ...]
    wanted: tuple[Wanted, ...]
    now_ms: int
    ends: bool
    ends_with_rows: bool = field(default=False)


def pipeline_of(located: LocatedCase, read: ReadPipeline) -> tuple[str, str | None]:
    """Return the SQL and the functions that a case tests."""
    case, folder = located.case, located.folder
    udfs = None if case.udfs is None else folder / case.udfs
    if case.pipeline is not None:
        return read(folder / case.pipeline, udfs)
    assert case.sql is not None
    return case.sql, None if udfs is None else udfs.read_text()


def stage(located: LocatedCase, sql: str, udf_source: str | None) -> StagedCase:
    """Make a case ready. Raises `SqlError` of the pipeline, `CaseFileError` of the case."""
    case = located.case
    graph = plan(sql, udf_source=udf_source)
    declared = declared_columns(sql, udf_source)
    steps = case.steps if case.steps is not None else [Step(given=case.given)]
    _check_tables(case, steps, graph, declared)
    sources = {
        o.id: _staged_source(o.spec, steps, declared, located.folder)
        for o in graph.sources()
        if isinstance(o.spec, SourceSpec)
    }
    sinks = {o.id: o.spec for o in graph.sinks() if isinstance(o.spec, SinkSpec)}
    wanted = [w for n, s in enumerate(steps) for w in _wanted(n, s.expect, sinks)]
    wanted += _wanted(None, case.expect, sinks)
    return StagedCase(
        located=located,
        sql=sql,
        graph=graph,
        sources=sources,
        lookups=_lookups(graph, case.lookups, declared, located.folder),
        sinks=sinks,
        steps=tuple(_script_step(n, s, sources) for n, s in enumerate(steps)),
        wanted=tuple(wanted),
        now_ms=_time_us(case.now or NOW, "now") // 1000,
        ends=case.ends,
        ends_with_rows=case.steps is None,
    )


def _check_tables(
    case: Case, steps: Iterable[Step], graph: PipelineGraph, declared: dict[str, list[str]]
) -> None:
    lookups = {o.spec.table for o in graph.operators if isinstance(o.spec, LookupJoinSpec)}
    written = {o.spec.table for o in graph.sinks() if isinstance(o.spec, SinkSpec)}
    sources = {o.spec.table for o in graph.sources() if isinstance(o.spec, SourceSpec)}
    # A table that nothing reads may be given all the same: its pipeline may leave it out today.
    known = sources | (declared.keys() - lookups - written)
    for step in steps:
        for table in step.given:
            if table in lookups:
                raise CaseFileError(f"'{table}' is a lookup table: give its rows in `lookups`")
            _check_name(table, known, "no table that it reads is named")
    for table in case.lookups:
        _check_name(table, lookups | (declared.keys() - sources), "it looks up no table named")


def _check_name(name: str, known: Iterable[str], said: str) -> None:
    names = sorted(known)
    if name in names:
        return
    near = closest(name, names)
    hint = f"did you mean '{near}'?" if near else f"there is {', '.join(names) or 'none'}"
    raise CaseFileError(f"{said} '{name}': {hint}")


def _staged_source(
    spec: SourceSpec, steps: Iterable[Step], declared: dict[str, list[str]], folder: Path
) -> StagedSource:
    shape = replace(source_shape(spec), known=tuple(declared.get(spec.table, ())))
    empty = GivenRows(rows=[])
    lines = tuple(lines_of(shape, step.given.get(spec.table, empty), folder) for step in steps)
    return StagedSource(shape, lines)


def _lookups(
    graph: PipelineGraph, given: Given, declared: dict[str, list[str]], folder: Path
) -> dict[OperatorId, tuple[TableShape, list[Line]]]:
    found = {}
    for operator in graph.operators:
        spec = operator.spec
        if not isinstance(spec, LookupJoinSpec):
            continue
        if spec.table not in given:
            raise CaseFileError(
                f"the rows of lookup table '{spec.table}' are missing: give them in `lookups` "
                f"(`{spec.table}: []` if there are none)"
            )
        shape = replace(lookup_shape(spec), known=tuple(declared.get(spec.table, ())))
        found[operator.id] = (shape, lines_of(shape, given[spec.table], folder))
    return found


def _script_step(number: int, step: Step, sources: dict[OperatorId, StagedSource]) -> ScriptStep:
    advance = None if step.advance is None else parse_nanoseconds(step.advance) // 1000
    where = f"step {number + 1}: watermark"
    return ScriptStep(
        rows={source: len(staged.steps[number]) for source, staged in sources.items()},
        watermark_us=None if step.watermark is None else _time_us(step.watermark, where),
        advance_us=advance,
        publishes=step.expect is not None,
    )


def _wanted(
    step: int | None, expect: dict[str, ExpectedRows] | None, sinks: dict[OperatorId, SinkSpec]
) -> list[Wanted]:
    tables = sorted({spec.table for spec in sinks.values()})
    found = []
    for table, rows in (expect or {}).items():
        meant = table
        if table == RESULT and table not in tables:
            if len(tables) != 1:
                raise CaseFileError(
                    f"the pipeline writes {', '.join(tables)}: name the table whose rows these are"
                )
            meant = tables[0]
        _check_name(meant, tables, "it writes no table named")
        operators = tuple(o for o, spec in sinks.items() if spec.table == meant)
        names = {c.name for o in operators for c in sinks[o].columns}
        _check_expected(meant, rows, names, updating=any(sinks[o].updating for o in operators))
        found.append(Wanted(step, meant, operators, rows))
    return found


def _check_expected(table: str, rows: ExpectedRows, columns: set[str], *, updating: bool) -> None:
    if rows.updating == "changes" and not updating:
        raise CaseFileError(f"'{table}' takes facts, not changes: leave out `updating: changes`")
    for row in rows.rows:
        for name in row if columns else ():
            if name == "_op" and rows.updating == "changes":
                continue
            _check_name(name, columns, f"'{table}' has no column")


def _time_us(text: str, what: str) -> int:
    try:
        time = as_time(text)
    except ValueError as error:
        raise CaseFileError(f"{what}: '{text}' is no time: write 2024-01-01T00:00:00Z") from error
    return round(time.timestamp()) * 1_000_000 + time.microsecond
