"""The process operator: a table whose rows are made by Python code over another one.

CREATE TABLE quiet (device TEXT, rows BIGINT)
WITH (process = 'quiet.py:Quiet', input = readings, keys = [device]);
"""

from __future__ import annotations

from sqlglot import exp

from headgate.operators.process.draft import ProcessDraft
from headgate.planner.drafts.draft import Exprs, column
from headgate.planner.errors import error_at
from headgate.planner.lower.context import Context
from headgate.planner.lower.relation import Field, Relation, filtered_draft
from headgate.planner.options import Options
from headgate.planner.statements import CreateTable
from headgate.planner.tables import plain_columns


def is_process(create: CreateTable) -> bool:
    """Whether a CREATE TABLE names code instead of a connector."""
    keys = {option.this.name for option in create.args.get("options") or []}
    return "process" in keys and "connector" not in keys


def lower_process(context: Context, create: CreateTable) -> Relation:
    """Return the rows that the code makes of its input."""
    options = Options(create)
    file, attribute = _code(options)
    relation = _input(context, options)
    columns = plain_columns(create, context.bind_columns)
    if not columns:
        raise error_at(create.this, "a process operator declares the columns it returns")
    exprs = {f.name: f.expr for f in relation.fields if not f.hidden}
    keys = _keys(options, exprs)
    if options.values:
        unknown = next(iter(options.values))
        raise error_at(options.at(unknown), f"unknown options provided in WITH clause: '{unknown}'")
    source = filtered_draft(relation)
    draft = ProcessDraft(
        inputs=[source.draft],
        types={c.name: c.type for c in columns},
        file=file,
        attribute=attribute,
        keys=keys,
        exprs=exprs,
    )
    fields = tuple(Field(name=c.name, expr=column(c.name)) for c in columns)
    return Relation(draft=draft, fields=fields)


def _code(options: Options) -> tuple[str, str]:
    text = options.take_text("process") or ""
    file, separator, attribute = text.rpartition(":")
    if not separator or not file or not attribute.isidentifier():
        raise error_at(options.at("process"), "write process = 'file.py:Class'")
    return file, attribute


def _input(context: Context, options: Options) -> Relation:
    name = options.take_text("input")
    at = options.at("input")
    if name is None:
        raise error_at(at, "required option 'input' not set: the table or view to read")
    node = exp.to_identifier(name, quoted=True)
    if at.meta.get("start") is not None:
        node.update_positions(at)
    relation = context.read(node)
    if relation.updating:
        raise error_at(at, "a process operator cannot read an updating stream")
    return relation


def _keys(options: Options, exprs: Exprs) -> Exprs:
    """Return the key columns by name; without keys there is one subtask."""
    at = options.at("keys")
    given = options.values.pop("keys", [])
    names = given if isinstance(given, list) else [given]
    by_name = {name.lower(): name for name in exprs}
    keys: Exprs = {}
    for name in names:
        found = by_name.get(name.lower()) if isinstance(name, str) else None
        if found is None:
            known = ", ".join(exprs)
            raise error_at(at, f"key '{name}' is no column of the input (available: {known})")
        keys[found] = exprs[found]
    return keys
