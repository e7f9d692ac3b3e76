"""What a FROM item or a query is while it is lowered: columns over a draft, not yet computed.

Projections and filters are kept here and become an operator only if something needs them
computed. So nested selects collapse into one, and an expression of an outer query is known in
terms of the operator that makes its rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from headgate.core.graph import Window
from headgate.operators.project.draft import ProjectDraft
from headgate.planner.drafts.draft import Draft, column
from headgate.planner.functions import is_volatile
from headgate.planner.infer import infer_type

# Beyond this size an expression is computed once instead of being copied into its users.
_INLINE_NODES_MAX = 200


@dataclass(frozen=True)
class Field:
    """A column as the user names it, as an expression over the relation's draft."""

    name: str
    expr: exp.Expr
    table: str | None = None
    # The struct that a window function made, or a copy of it.
    is_window: bool = False
    # The right side's copy of a USING column: found by its qualified name only.
    hidden: bool = False


@dataclass(frozen=True)
class Relation:
    draft: Draft
    fields: tuple[Field, ...]
    where: tuple[exp.Expr, ...] = ()
    # The window that the rows carry, by a field or only by their time.
    window: Window | None = None

    @property
    def updating(self) -> bool:
        return self.draft.updating

    def aliased(self, alias: str | None) -> Relation:
        """Return the relation with all fields under one qualifier."""
        return replace(self, fields=tuple(replace(f, table=alias) for f in self.fields))

    def with_fields(self, fields: Iterable[Field]) -> Relation:
        return replace(self, fields=tuple(fields))

    def with_exprs(self, exprs: Iterable[exp.Expr]) -> Relation:
        """Return the relation with the expressions as further fields, so that they are kept."""
        added = [Field(name=f"expr_{i}", expr=e) for i, e in enumerate(exprs)]
        return replace(self, fields=(*self.fields, *added))

    def filtered(self, conditions: Iterable[exp.Expr]) -> Relation:
        return replace(self, where=(*self.where, *conditions))

    def window_field(self) -> Field | None:
        return next((f for f in self.fields if f.is_window), None)

    def type_of(self, expr: exp.Expr) -> str | None:
        return infer_type(expr, self.draft.types)


def unique_names(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Return the names with a number added if one repeats; Spark ignores case, so do we."""
    used = {name.lower() for name in taken}
    result = []
    for name in names:
        candidate, number = name, 2
        while candidate.lower() in used:
            candidate, number = f"{name}_{number}", number + 1
        used.add(candidate.lower())
        result.append(candidate)
    return result


def project(relation: Relation, fields: Iterable[Field]) -> Relation:
    """Return the relation with other fields; computes them now if copying would be wrong."""
    result = relation.with_fields(fields)
    costly = any(
        is_volatile(f.expr) or sum(1 for _ in f.expr.walk()) > _INLINE_NODES_MAX
        for f in result.fields
    )
    return computed(result) if costly else result


def computed(relation: Relation, names: Iterable[str] | None = None) -> Relation:
    """Return the relation over a draft whose columns are exactly its fields, by unique names."""
    chosen = list(names) if names is not None else unique_names(f.name for f in relation.fields)
    exprs = {n: f.expr for n, f in zip(chosen, relation.fields, strict=True)}
    draft = ProjectDraft(
        inputs=[relation.draft],
        types={n: relation.type_of(e) for n, e in exprs.items()},
        updating=relation.updating,
        exprs=exprs,
        where=list(relation.where),
    )
    fields = tuple(replace(f, expr=column(n)) for n, f in zip(chosen, relation.fields, strict=True))
    return Relation(draft=draft, fields=fields, window=relation.window)


def filtered_draft(relation: Relation) -> Relation:
    """Return the relation with its filter applied, if it has one; fields stay expressions.

    Operators that take expressions but no filter need this below them.
    """
    if not relation.where:
        return relation
    needed = {c.name for f in relation.fields for c in f.expr.find_all(exp.Column)}
    kept = [n for n in relation.draft.types if n in needed]
    draft = ProjectDraft(
        inputs=[relation.draft],
        types={n: relation.draft.types[n] for n in kept},
        updating=relation.updating,
        exprs={n: column(n) for n in kept},
        where=list(relation.where),
    )
    return replace(relation, draft=draft, where=())
