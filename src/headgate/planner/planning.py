"""From text to graph: the statements in their order, then the rules over the drafted graph."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headgate.core.graph import PipelineGraph, Udf
from headgate.core.suggestions import did_you_mean
from headgate.planner.build import build_graph
from headgate.planner.catalog import Catalog, MemoryTable, View
from headgate.planner.connectors import FindConnector
from headgate.planner.drafts.draft import Draft, topological
from headgate.planner.errors import Errors, SqlError, SqlWarning, error_at
from headgate.planner.ids import OperatorIds
from headgate.planner.intervals import interval_us
from headgate.planner.lower.context import Context
from headgate.planner.lower.dead_letters import check_dead_letters, dead_letter_sinks
from headgate.planner.lower.from_clause import with_columns
from headgate.planner.lower.insert import lower_insert, lower_preview
from headgate.planner.lower.process import is_process, lower_process
from headgate.planner.lower.query import lower_query
from headgate.planner.lower.sinks import merged_sinks
from headgate.planner.optimize import optimize
from headgate.planner.parse import parse_statements
from headgate.planner.rewrites import rewrite
from headgate.planner.statements import CreateTable, CreateView, SetOption, Unparsed
from headgate.planner.tables import create_table
from headgate.planner.udfs import read_udfs


@dataclass(frozen=True)
class Planned:
    """What a text means, and what its author should know."""

    graph: PipelineGraph
    warnings: tuple[SqlWarning, ...]


def plan_pipeline(
    sql: str, *, find_connector: FindConnector, udf_source: str | None, preview: bool
) -> PipelineGraph:
    """Plan the pipeline of a text."""
    return planned(sql, find_connector=find_connector, udf_source=udf_source, preview=preview).graph


def planned(
    sql: str, *, find_connector: FindConnector, udf_source: str | None, preview: bool
) -> Planned:
    """Plan the pipeline of a text, and say what its author should know."""
    try:
        return _plan(sql, find_connector, udf_source, preview)
    except RecursionError as error:
        raise SqlError("this SQL is nested too deeply", line=1, column=1) from error


def declared_by(sql: str, *, find_connector: FindConnector, udf_source: str | None) -> Catalog:
    """Return what the statements of a text declare; it need not have a query."""
    try:
        return _lowered(sql, find_connector, _udfs(udf_source), preview=True).catalog
    except RecursionError as error:
        raise SqlError("this SQL is nested too deeply", line=1, column=1) from error


def _plan(
    sql: str, find_connector: FindConnector, udf_source: str | None, preview: bool
) -> Planned:
    udfs = _udfs(udf_source)
    context = _lowered(sql, find_connector, udfs, preview)
    if not context.sinks:
        raise SqlError("The provided SQL does not contain a query", line=1, column=1)
    sinks = merged_sinks(_with_dead_letters(context).sinks)
    optimize(sinks)
    return Planned(build_graph(sinks, udf_source, udfs), tuple(dict.fromkeys(context.warnings)))


def _with_dead_letters(context: Context) -> Context:
    check_dead_letters(context.catalog, context.creates)
    context.sinks += dead_letter_sinks(context.catalog, list(context.sources.values()))
    return context


def drafted(sql: str, *, find_connector: FindConnector, udf_source: str | None) -> dict[str, Draft]:
    """Return the drafts of a text by the ids of their operators: they know their places in it."""
    context = _lowered(sql, find_connector, _udfs(udf_source), preview=True)
    sinks = merged_sinks(_with_dead_letters(context).sinks)
    optimize(sinks)
    ids = OperatorIds()
    return {ids.add(draft): draft for draft in topological(sinks)}


def _udfs(udf_source: str | None) -> tuple[Udf, ...]:
    return read_udfs(udf_source) if udf_source is not None else ()


def _lowered(
    sql: str, find_connector: FindConnector, udfs: tuple[Udf, ...], preview: bool
) -> Context:
    """Go over all statements, also after a wrong one: errors that it did not cause are told too."""
    context = Context(catalog=Catalog(udfs={u.name.lower(): u for u in udfs}))
    errors = Errors()
    for statement in parse_statements(sql):
        if isinstance(statement, CreateTable):
            context.creates.append(statement)
        # The rules change the tree: the names are read before them.
        names = _declared(context, statement)
        known = len(errors.found)
        with errors.caught():
            if isinstance(statement, Unparsed):
                raise statement.args["error"]
            _statement(context, rewrite(statement), find_connector, preview)
        if len(errors.found) > known:
            context.catalog.broken |= {name.lower() for name in names}
    errors.raise_any()
    return context


def _declared(context: Context, statement: exp.Expr) -> set[str]:
    """Return the name that cannot be read if the statement is wrong."""
    if isinstance(statement, Unparsed):
        return {statement.this} if statement.this else set()
    if isinstance(statement, CreateTable | CreateView):
        name = str(statement.this.name)
        # A second declaration of a name leaves the first one as it is.
        return set() if context.catalog.find(name) is not None else {name}
    if isinstance(statement, exp.Insert):
        target = statement.find(exp.Table)
        name = target.name if target is not None else ""
        return {name} if isinstance(context.catalog.find(name), MemoryTable) else set()
    return set()


def _statement(
    context: Context, statement: exp.Expr, find_connector: FindConnector, preview: bool
) -> None:
    catalog = context.catalog
    if isinstance(statement, CreateTable) and is_process(statement):
        relation = lower_process(context, statement)
        catalog.add(View(name=statement.this.name, relation=relation), statement.this)
    elif isinstance(statement, CreateTable):
        table = create_table(statement, find_connector, context.bind_columns)
        catalog.add(table, statement.this)
    elif isinstance(statement, CreateView):
        relation = lower_query(context, statement.args["query"])
        relation = with_columns(relation, statement.expressions)
        catalog.add(View(name=statement.this.name, relation=relation), statement.this)
    elif isinstance(statement, SetOption):
        _set(catalog, statement)
    elif isinstance(statement, exp.Insert):
        lower_insert(context, statement)
    elif isinstance(statement, exp.Query):
        if not preview:
            raise error_at(statement, "a bare SELECT is a preview: write INSERT INTO a sink")
        lower_preview(context, statement)
    else:
        raise error_at(statement, _unsupported(statement))


def _set(catalog: Catalog, statement: SetOption) -> None:
    name = statement.this.name.lower()
    if name != "updating_ttl":
        hint = did_you_mean(name, ["updating_ttl"])
        raise error_at(statement.this, f"unknown setting '{name}' (known: updating_ttl){hint}")
    length = interval_us(statement.expression)
    if length < 1_000:
        raise error_at(statement.expression, "updating_ttl must be at least one millisecond")
    catalog.updating_ttl_ms = length // 1_000


def _unsupported(statement: exp.Expr) -> str:
    if isinstance(statement, exp.Command):
        return f"unsupported statement {str(statement.this).upper()}"
    if isinstance(statement, exp.DDL | exp.DML | exp.Drop | exp.Alter | exp.Describe | exp.Use):
        return f"unsupported statement {type(statement).__name__.upper()}"
    return "expected CREATE TABLE, CREATE VIEW, INSERT, SELECT or SET"
