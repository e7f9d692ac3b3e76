"""The real table behind a declared one: what the catalog says of it, and what does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from headgate.connectors.postgres.database import Connection
from headgate.connectors.postgres.types import (
    DeclaredType,
    RealType,
    declared_type,
    taken_by,
)
from headgate.core.errors import UserError
from headgate.core.graph import Column

_TABLE = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text, c.relrowsecurity OR c.relhasrules
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass(%s)
"""
_COLUMNS = """
SELECT a.attname, coalesce(e.typname, t.typname), t.oid::bigint,
       format_type(t.oid, a.atttypmod), e.oid IS NOT NULL, t.typtype::text, a.atttypmod,
       a.attnotnull, a.atthasdef, a.attidentity::text, a.attgenerated::text
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
# Unique indexes that ON CONFLICT can use for a list of columns.
_KEYS = """
SELECT array_agg(a.attname::text ORDER BY a.attname)
FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
     AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])
WHERE i.indrelid = %s AND i.indisunique AND i.indimmediate AND i.indisvalid
      AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid
"""
_RIGHTS = "SELECT r FROM unnest(%s::text[]) r WHERE NOT has_table_privilege(%s::oid, r)"


@dataclass(frozen=True)
class RealColumn:
    name: str
    type: RealType
    not_null: bool
    has_default: bool
    # GENERATED ALWAYS, as an identity or from an expression: nobody may write it.
    is_generated: bool


@dataclass(frozen=True)
class RealTable:
    oid: int
    schema: str
    name: str
    # An ordinary table, or one with partitions.
    is_table: bool
    # COPY would pass by its row security or its rules.
    is_guarded: bool
    columns: tuple[RealColumn, ...]
    unique_keys: tuple[frozenset[str], ...]

    @property
    def sql(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)

    def column(self, name: str) -> RealColumn | None:
        """Return the column of a name; another case is no matter if only one column has it."""
        same = [c for c in self.columns if c.name == name]
        like = [c for c in self.columns if c.name.lower() == name.lower()]
        return same[0] if same else like[0] if len(like) == 1 else None

    def fitting(self, declared: Sequence[Column]) -> list[RealColumn]:
        """Return the columns that were declared, in their order. All of them are there."""
        found = [self.column(column.name) for column in declared]
        return [column for column in found if column is not None]


def quoted(*names: str) -> str:
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def find_table(connection: Connection, place: tuple[str | None, str]) -> RealTable | None:
    """Return what the catalog has; None if there is no such table."""
    schema, name = place
    regclass = quoted(schema, name) if schema else quoted(name)
    found = connection.execute(_TABLE, (regclass,)).fetchone()
    if found is None:
        return None
    oid, real_schema, real_name, kind, guarded = found
    columns = connection.execute(_COLUMNS, (oid,)).fetchall()
    keys = connection.execute(_KEYS, (oid,)).fetchall()
    return RealTable(
        oid=oid,
        schema=real_schema,
        name=real_name,
        is_table=kind in ("r", "p"),
        is_guarded=guarded,
        columns=tuple(_column(*row) for row in columns),
        unique_keys=tuple(frozenset(row[0]) for row in keys),
    )


def _column(
    name: str,
    typname: str,
    oid: int,
    shown: str,
    is_array: bool,
    typtype: str,
    typmod: int,
    not_null: bool,
    has_default: bool,
    identity: str,
    generated: str,
) -> RealColumn:
    # The modifier of a numeric packs both of its numbers, after four bytes.
    limited = typname == "numeric" and typmod >= 4
    real = RealType(
        name=typname,
        oid=oid,
        shown=shown,
        is_array=is_array,
        is_enum=typtype == "e",
        precision=((typmod - 4) >> 16) & 0xFFFF if limited else None,
        scale=(typmod - 4) & 0x7FF if limited else None,
    )
    return RealColumn(
        name=name,
        type=real,
        not_null=not_null,
        has_default=has_default or identity != "",
        is_generated=identity == "a" or generated != "",
    )


def create_statement(
    place: tuple[str | None, str], columns: Sequence[Column], primary_key: Sequence[str]
) -> str:
    """Return the statement that makes a table for the declared columns."""
    schema, name = place
    parts = []
    for column in columns:
        required = not column.nullable or column.name in primary_key
        kind = declared_type(column).sql()
        parts.append(f"{quoted(column.name)} {kind}{' NOT NULL' if required else ''}")
    if primary_key:
        parts.append(f"PRIMARY KEY ({', '.join(quoted(key) for key in primary_key)})")
    table = quoted(schema, name) if schema else quoted(name)
    return f"CREATE TABLE {table} ({', '.join(parts)})"


def check_table(
    connection: Connection,
    real: RealTable,
    columns: Sequence[Column],
    primary_key: Sequence[str],
    *,
    upsert: bool,
) -> None:
    """Raise one `UserError` that names everything about the real table that does not fit."""
    table = quoted(real.schema, real.name)
    if not real.is_table:
        raise UserError(
            f"{table} is no table that rows can be copied into: name the table itself, not a view",
            code="target",
        )
    problems = [*_column_problems(real, columns, primary_key)]
    missing = {c.name for c in columns if real.column(c.name) is None}
    if upsert and not missing & set(primary_key):
        keys = frozenset(c.name for k in primary_key if (c := real.column(k)) is not None)
        if keys not in real.unique_keys:
            listed = ", ".join(quoted(name) for name in sorted(keys))
            problems.append(
                f"no unique index is on the PRIMARY KEY ({', '.join(primary_key)}), by which rows "
                f"are found again: CREATE UNIQUE INDEX ON {table} ({listed})"
            )
    needed = ["INSERT", "SELECT", "UPDATE", "DELETE"] if upsert else ["INSERT"]
    rights = [row[0] for row in connection.execute(_RIGHTS, (needed, real.oid)).fetchall()]
    if rights:
        problems.append(
            f"the user may not {', '.join(rights)}: GRANT {', '.join(rights)} ON {table} TO "
            f"{connection.info.user}"
        )
    if problems:
        listed = "; ".join(f"({n}) {text}" for n, text in enumerate(problems, 1))
        raise UserError(f"{table} does not fit the declared table: {listed}", code="target")


def _column_problems(
    real: RealTable, columns: Sequence[Column], primary_key: Sequence[str]
) -> list[str]:
    problems = []
    table = quoted(real.schema, real.name)
    for column in columns:
        declared, found = declared_type(column), real.column(column.name)
        if found is None:
            problems.append(
                f"column '{column.name}' is not there: ALTER TABLE {table} ADD COLUMN "
                f"{quoted(column.name)} {declared.sql()}"
            )
            continue
        problems += _type_problems(column, declared, found)
        required = not column.nullable or column.name in primary_key
        if found.not_null and not required:
            problems.append(
                f"column '{column.name}' is NOT NULL there, and may be null here: declare it NOT "
                f"NULL, or ALTER TABLE {table} ALTER COLUMN {quoted(found.name)} DROP NOT NULL"
            )
    declared_names = {c.name for c in real.fitting(columns)}
    for other in real.columns:
        if other.name not in declared_names and other.not_null and not other.has_default:
            problems.append(
                f"column '{other.name}' is NOT NULL there, has no default, and is not declared: "
                "declare it and fill it, or give it a default"
            )
    return problems


def _type_problems(column: Column, declared: DeclaredType, found: RealColumn) -> list[str]:
    if found.is_generated:
        return [f"column '{column.name}' is GENERATED ALWAYS there: take it out here"]
    if not found.type.takes(declared):
        return [
            f"column '{column.name}' is {found.type.shown} there, and {column.type} here, which "
            f"fits into {taken_by(declared)}: declare another type, or alter the column"
        ]
    return []
