"""CREATE TABLE: columns, keys, watermark and options become a table of the catalog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from headgate.core.errors import UserError
from headgate.core.graph import Column
from headgate.core.model import JsonValue
from headgate.core.suggestions import did_you_mean
from headgate.planner.catalog import (
    RESERVED,
    ConnectorTable,
    Generated,
    MemoryTable,
    Role,
)
from headgate.planner.connectors import Connector, FindConnector
from headgate.planner.errors import Errors, SqlError, error_at
from headgate.planner.functions import function_name
from headgate.planner.options import Options
from headgate.planner.statements import CreateTable, TableColumn, TablePrimaryKey, Watermark
from headgate.planner.types import spark_type

# Binds an expression over the columns of a table, given the types of its columns.
BindColumns = Callable[[exp.Expr, dict[str, str]], exp.Expr]


@dataclass
class _Elements:
    """What stands between the parentheses."""

    columns: list[Column] = field(default_factory=list)
    metadata: list[tuple[Column, str]] = field(default_factory=list)
    generated: list[Generated] = field(default_factory=list)
    primary_key: list[str] = field(default_factory=list)
    watermark: Watermark | None = None
    nodes: dict[str, TableColumn] = field(default_factory=dict)


def create_table(
    create: CreateTable, find_connector: FindConnector, bind: BindColumns
) -> ConnectorTable | MemoryTable:
    """Check one CREATE TABLE and return what it declares."""
    options = Options(create)
    elements = _read_elements(create, bind)
    connector_name = options.take_text("connector")
    if connector_name is None or connector_name == "memory":
        return _memory_table(create, options, elements, connector_name)
    try:
        connector = find_connector(connector_name)
    except UserError as error:
        raise error_at(options.at("connector"), error.message) from error
    role = _role(create, options, connector)
    if not elements.nodes and role == "source":
        _default_columns(create, connector, elements)
    names = {key: options.take_text(key) for key in ("event_time_field", "watermark_field")}
    validated = _validated(connector, role, options, elements)
    updating = connector.is_updating(role, validated)
    _check_elements(create, role, connector, elements)
    if updating and role == "source":
        _check_updating(create, elements)
    event_time, watermark = _time(options, names, elements, role, updating, bind)
    return ConnectorTable(
        name=create.this.name,
        role=role,
        connector=connector_name,
        options=validated,
        columns=tuple(elements.columns),
        metadata=tuple(elements.metadata),
        generated=tuple(elements.generated),
        order=tuple(node.this.name for node in elements.nodes.values()),
        primary_key=tuple(elements.primary_key),
        event_time=event_time,
        watermark=watermark,
        updating=updating,
        by_position=connector.is_by_position(role, validated),
        gives_event_time=connector.gives_event_time,
        updating_hint=connector.updating_hint(role),
    )


def plain_columns(create: CreateTable, bind: BindColumns) -> tuple[Column, ...]:
    """Return the columns of a table that has nothing but names and types."""
    elements = _read_elements(create, bind)
    for node in create.expressions or []:
        if isinstance(node, Watermark | TablePrimaryKey) or any(
            node.args.get(key) for key in ("generated", "metadata", "primary_key")
        ):
            raise error_at(node, "the output of a process operator has plain columns only")
    return tuple(elements.columns)


def _validated(
    connector: Connector, role: Role, options: Options, elements: _Elements
) -> dict[str, JsonValue]:
    columns, key = tuple(elements.columns), tuple(elements.primary_key)
    try:
        return connector.validate(role, options.values, columns, key)
    except SqlError:
        raise
    except UserError as error:
        raise error_at(options.blame(error.message), error.message) from error


def _read_elements(create: CreateTable, bind: BindColumns) -> _Elements:
    elements = _Elements()
    errors = Errors()
    for element in create.expressions or []:
        with errors.caught():
            if isinstance(element, TableColumn):
                _declare(element, elements)
            elif isinstance(element, Watermark):
                if elements.watermark is not None:
                    raise error_at(element, "a table has one WATERMARK clause at most")
                elements.watermark = element
    errors.raise_any()
    for element in create.expressions or []:
        if isinstance(element, TablePrimaryKey):
            elements.primary_key.extend(_key_name(n, elements) for n in element.expressions)
    physical = {c.name: c.type for c in elements.columns}
    physical |= {c.name: c.type for c, _ in elements.metadata}
    for node in elements.nodes.values():
        if node.args.get("generated") is not None:
            elements.generated.append(
                Generated(
                    name=node.this.name,
                    type=_column_type(node),
                    expr=bind(node.args["generated"], physical),
                )
            )
    return elements


def _declare(node: TableColumn, elements: _Elements) -> None:
    name = node.this.name
    if name.lower() in RESERVED:
        raise error_at(node.this, f"column name '{name}' is reserved")
    if name.lower() in elements.nodes:
        raise error_at(node.this, f"column '{name}' is declared twice")
    elements.nodes[name.lower()] = node
    _metadata_call(node)
    column = Column(name=name, type=_column_type(node), nullable=not node.args.get("not_null"))
    if node.args.get("primary_key"):
        elements.primary_key.append(name)
    if node.args.get("generated") is not None:
        return
    if node.args.get("metadata") is not None:
        elements.metadata.append((column, node.args["metadata"].name))
    else:
        elements.columns.append(column)


def _metadata_call(node: TableColumn) -> None:
    """`GENERATED ALWAYS AS (metadata('key'))` is the longer way to write METADATA FROM 'key'."""
    call = node.args.get("generated")
    if call is not None and function_name(call) == "metadata" and len(call.expressions) == 1:
        key = call.expressions[0]
        if not isinstance(key, exp.Literal) or not key.is_string:
            raise error_at(call, "metadata() takes the key as a string")
        node.set("generated", None)
        node.set("metadata", key)


def _column_type(node: TableColumn) -> str:
    kind = node.args.get("kind")
    if not isinstance(kind, exp.DataType):
        raise error_at(node.this, f"column '{node.this.name}' needs a type")
    try:
        return spark_type(kind)
    except SqlError as error:
        raise error_at(kind, error.message) from error


def _key_name(node: exp.Expr, elements: _Elements) -> str:
    found = elements.nodes.get(node.name.lower())
    if found is None:
        hint = did_you_mean(node.name, elements.nodes)
        raise error_at(node, f"column '{node.name}' of the primary key is not declared{hint}")
    return str(found.this.name)


def _memory_table(
    create: CreateTable, options: Options, elements: _Elements, connector: str | None
) -> MemoryTable:
    name = create.this.name
    if create.args.get("temporary"):
        raise error_at(create.this, f"lookup table '{name}' needs a connector")
    if elements.generated or elements.metadata:
        node = next(
            n
            for n in elements.nodes.values()
            if n.args.get("generated") is not None or n.args.get("metadata") is not None
        )
        raise error_at(
            node.this,
            "Virtual fields are not supported in memory tables; instead write a query",
        )
    if options.values:
        hint = "" if connector else "; to create a connection table set the 'connector' option"
        first = next(iter(options.values))
        raise error_at(options.at(first), f"Memory tables do not allow with options{hint}")
    if elements.watermark is not None:
        raise error_at(
            elements.watermark, "a memory table has no WATERMARK: its rows keep their event time"
        )
    return MemoryTable(name=name, columns=tuple(elements.columns))


def _role(create: CreateTable, options: Options, connector: Connector) -> Role:
    wanted = options.take_text("type")
    if create.args.get("temporary"):
        if "lookup" not in connector.roles:
            raise error_at(
                options.at("connector"), f"connector '{connector.name}' cannot be a lookup table"
            )
        if wanted not in (None, "lookup"):
            raise error_at(
                options.at("type"), "a temporary table is a lookup table: leave out type"
            )
        return "lookup"
    if wanted is None:
        possible = connector.roles - {"lookup"}
        if len(possible) == 1:
            return "source" if "source" in possible else "sink"
        raise error_at(
            create.this, "required option 'type' not set: write type = 'source' or type = 'sink'"
        )
    if wanted not in ("source", "sink"):
        raise error_at(options.at("type"), f"invalid type '{wanted}', must be 'source' or 'sink'")
    if wanted not in connector.roles:
        raise error_at(options.at("type"), f"connector '{connector.name}' cannot be a {wanted}")
    return "source" if wanted == "source" else "sink"


def _default_columns(create: CreateTable, connector: Connector, elements: _Elements) -> None:
    """Declare the columns of a connector that knows them, if the statement has none."""
    for known in connector.columns:
        node = TableColumn(
            this=exp.to_identifier(known.name).update_positions(create.this),
            kind=exp.DataType.build(known.type, dialect="spark"),
            not_null=not known.nullable,
        )
        elements.nodes[known.name.lower()] = node
        elements.columns.append(known)


def _check_elements(
    create: CreateTable, role: Role, connector: Connector, elements: _Elements
) -> None:
    name = create.this.name
    if role == "source" and not elements.columns and not elements.metadata:
        raise error_at(create.this, f"source table '{name}' needs columns")
    if role == "lookup" and not elements.primary_key:
        raise error_at(create.this, f"lookup table '{name}' needs a PRIMARY KEY")
    if role == "lookup" and (elements.generated or elements.metadata or elements.watermark):
        raise error_at(
            create.this, "a lookup table has no generated columns, METADATA or WATERMARK"
        )
    if role == "sink" and (elements.generated or elements.watermark):
        node = elements.watermark or elements.nodes[elements.generated[0].name.lower()].this
        raise error_at(node, "a sink has no generated columns and no WATERMARK")
    for column, key in elements.metadata:
        if role == "source" and key not in connector.metadata_keys:
            node = elements.nodes[column.name.lower()].args["metadata"]
            known = ", ".join(f"'{k}'" for k in sorted(connector.metadata_keys)) or "none"
            hint = did_you_mean(key, connector.metadata_keys)
            raise error_at(
                node,
                f"connector '{connector.name}' has no metadata key '{key}' (known: {known}){hint}",
            )


def _check_updating(create: CreateTable, elements: _Elements) -> None:
    """Check a source of changes, which needs a key and knows no columns of our making."""
    virtual = [g.name for g in elements.generated] + [c.name for c, _ in elements.metadata]
    if virtual:
        node = elements.nodes[virtual[0].lower()].this
        raise error_at(node, "can't use virtual fields with debezium format")
    if not elements.primary_key:
        raise error_at(
            create.this, "debezium_json sources need a PRIMARY KEY: mark the columns of the key"
        )


def _time(
    options: Options,
    names: dict[str, str | None],
    elements: _Elements,
    role: Role,
    updating: bool,
    bind: BindColumns,
) -> tuple[exp.Expr | None, exp.Expr | None]:
    """Return (event time, watermark) over the declared columns; None if there is none."""
    for key, name in names.items():
        if name is not None and role != "source":
            raise error_at(options.at(key), f"option '{key}' belongs to a source")
        if name is not None and elements.watermark is not None:
            raise error_at(
                options.at(key), f"option '{key}' and a WATERMARK clause exclude each other"
            )
    if elements.watermark is not None:
        return _watermark_clause(elements.watermark, elements, updating, bind)
    event_time = watermark = None
    if names["event_time_field"] is not None:
        at = options.at("event_time_field")
        if updating:
            raise error_at(at, "can't use event_time_field with update mode.")
        event_time = _time_column(names["event_time_field"], elements, at)
    if names["watermark_field"] is not None:
        watermark = _time_column(names["watermark_field"], elements, options.at("watermark_field"))
    return event_time, watermark


def _watermark_clause(
    clause: Watermark, elements: _Elements, updating: bool, bind: BindColumns
) -> tuple[exp.Expr, exp.Expr]:
    if updating:
        raise error_at(clause, "can't use event_time_field with update mode.")
    event_time = _time_column(clause.this.name, elements, clause.this)
    if clause.args.get("expression") is None:
        return event_time, event_time.copy()
    declared = {n.this.name: _column_type(n) for n in elements.nodes.values()}
    watermark = bind(clause.expression, declared)
    if isinstance(watermark, exp.Null | exp.Literal):
        raise error_at(clause.expression, "a watermark must be a non-null timestamp")
    return event_time, watermark


def _time_column(name: str, elements: _Elements, at: exp.Expr) -> exp.Expr:
    node = elements.nodes.get(name.lower())
    if node is None or _column_type(node) != "timestamp":
        raise error_at(at, f"field {name} not found or not a timestamp")
    return exp.column(node.this.name)
