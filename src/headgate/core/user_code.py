"""What can be said of a user's Python from its text alone, without running it.

A controller has no business running it: the libraries may be missing there, and it may do anything.
Comments, formatting and docstrings are no change; whatever else a definition uses of its file is.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from functools import lru_cache

STATE_SCHEMA = "state_schema"

# How Arrow prints the types whose functions have another name.
_PRINTED = {
    "bool_": "bool",
    "float16": "halffloat",
    "float32": "float",
    "float64": "double",
    "list_": "list",
    "large_utf8": "large_string",
    "utf8": "string",
}

# Column name -> type, as Arrow prints it.
Fields = dict[str, str]


class _NotPlain(Exception):
    """A schema that is made in a way that only running it could tell."""


def same_definition(before: str, after: str, name: str) -> bool:
    """Whether what a file defines under a name, with all that it uses of the file, is the same."""
    return before == after or _definition(before, name) == _definition(after, name)


def state_fields(text: str, name: str) -> Fields | None:
    """Return the columns of a class's `state_schema`; None if only running the file could tell."""
    bound = _bindings(text)
    if bound is None:
        return None
    try:
        return dict(_schema(_class_attribute(bound, name, set()), bound))
    except _NotPlain:
        return None


def field_changes(before: Fields, after: Fields) -> list[str]:
    """Say of every column what became of it."""
    said = [f"'{name}' is no longer there" for name in before if name not in after]
    said += [f"'{name}' ({kind}) is new" for name, kind in after.items() if name not in before]
    said += [
        f"'{name}' was {kind} and is now {after[name]}"
        for name, kind in before.items()
        if name in after and after[name] != kind
    ]
    if not said and list(before) != list(after):
        said = ["the columns are in another order"]
    return said


# ---- definitions -----------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _definition(text: str, name: str) -> tuple[str, ...] | str:
    """Return what a definition consists of; the text itself if it cannot be parsed."""
    bound = _bindings(text)
    if bound is None:
        return text
    # What a file does at its top level beside defining may concern everything in it.
    used, waiting = set(), [name, ""]
    while waiting:
        part = waiting.pop()
        if part in used or part not in bound:
            continue
        used.add(part)
        for node in bound[part]:
            waiting.extend(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
    return tuple(
        ast.dump(_without_docstrings(node)) for part in sorted(used) for node in bound[part]
    )


def _bindings(text: str) -> dict[str, list[ast.stmt]] | None:
    """Return the statements of a file by the name they define; "" has those that define none."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    found: dict[str, list[ast.stmt]] = {}
    for node in module.body:
        for name in _names(node):
            found.setdefault(name, []).append(node)
    return found


def _names(node: ast.stmt) -> Sequence[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Import() | ast.ImportFrom():
            names = [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
            # `from x import *` may define anything.
            return ["" if name == "*" else name for name in names]
        case ast.Assign(targets=targets) if all(isinstance(t, ast.Name) for t in targets):
            return [t.id for t in targets if isinstance(t, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Expr(value=ast.Constant()):
            return []
        case _:
            return [""]


def _without_docstrings(node: ast.stmt) -> ast.stmt:
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = part.body[0] if part.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                part.body = part.body[1:]
    return node


# ---- schemas ---------------------------------------------------------------------------------


def _class_attribute(
    bound: dict[str, list[ast.stmt]], name: str, seen: set[str]
) -> ast.expr | None:
    """Return the expression of `state_schema`, also of a base in the same file."""
    nodes = bound.get(name, [])
    if name in seen or len(nodes) != 1 or not isinstance(nodes[0], ast.ClassDef):
        raise _NotPlain
    (node,) = nodes
    assert isinstance(node, ast.ClassDef)
    for part in node.body:
        match part:
            case ast.Assign(targets=[ast.Name(id="state_schema")], value=value):
                return value
            case ast.AnnAssign(target=ast.Name(id="state_schema"), value=ast.expr() as value):
                return value
    for base in node.bases:
        if isinstance(base, ast.Name) and isinstance(bound.get(base.id, [None])[0], ast.ClassDef):
            return _class_attribute(bound, base.id, {*seen, name})
        if _last_name(base) != "ProcessOperator":
            raise _NotPlain
    # The class of Headgate keeps no columns.
    return None


def _schema(node: ast.expr | None, bound: dict[str, list[ast.stmt]]) -> Iterator[tuple[str, str]]:
    if node is None:
        return
    call = _resolved(node, bound)
    if not isinstance(call, ast.Call) or _last_name(call.func) != "schema" or len(call.args) != 1:
        raise _NotPlain
    columns = _resolved(call.args[0], bound)
    if isinstance(columns, ast.Dict):
        for key, value in zip(columns.keys, columns.values, strict=True):
            yield _text(key, bound), _type(value, bound)
        return
    if not isinstance(columns, ast.List | ast.Tuple):
        raise _NotPlain
    for column in columns.elts:
        match _resolved(column, bound):
            case ast.Tuple(elts=[key, value]):
                yield _text(key, bound), _type(value, bound)
            case ast.Call(func=func, args=[key, value]) if _last_name(func) == "field":
                yield _text(key, bound), _type(value, bound)
            case _:
                raise _NotPlain


def _text(node: ast.expr | None, bound: dict[str, list[ast.stmt]]) -> str:
    match None if node is None else _resolved(node, bound):
        case ast.Constant(value=str() as text):
            return text
    raise _NotPlain


def _type(node: ast.expr, bound: dict[str, list[ast.stmt]]) -> str:
    match _resolved(node, bound):
        case ast.Constant(value=str() as text):
            return _PRINTED.get(text, text)
        case ast.Call(func=func, args=args, keywords=keywords):
            name = _last_name(func)
            if name is None:
                raise _NotPlain
            parts = [_argument(arg, bound) for arg in args]
            parts += [f"{k.arg}={_argument(k.value, bound)}" for k in keywords]
            printed = _PRINTED.get(name, name)
            return f"{printed}({', '.join(parts)})" if parts else printed
    raise _NotPlain


def _argument(node: ast.expr, bound: dict[str, list[ast.stmt]]) -> str:
    found = _resolved(node, bound)
    return str(found.value) if isinstance(found, ast.Constant) else _type(found, bound)


def _resolved(node: ast.expr, bound: dict[str, list[ast.stmt]]) -> ast.expr:
    """Follow names that the file gives to expressions."""
    seen: set[str] = set()
    while isinstance(node, ast.Name) and node.id not in seen and not hasattr(builtins, node.id):
        seen.add(node.id)
        match bound.get(node.id):
            case [ast.Assign(value=value)] | [ast.AnnAssign(value=ast.expr() as value)]:
                node = value
            case _:
                break
    return node


def _last_name(node: ast.expr) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)
