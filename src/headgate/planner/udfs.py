"""The user's Python functions, read from the text of their file without running it.

`@udf` marks a scalar function, `@udaf` an aggregate: a function of lists. Types come from the
hints; the name in SQL is the function's name.
"""

from __future__ import annotations

import ast

from headgate.core.errors import UserError
from headgate.core.graph import Udf
from headgate.planner.spark_functions import SPARK_FUNCTIONS

_TYPES = {
    "bool": "boolean",
    "bytes": "binary",
    "date": "date",
    "datetime": "timestamp",
    "Decimal": "decimal(38,10)",
    "float": "double",
    "int": "bigint",
    "str": "string",
    "timedelta": "interval day to second",
}
_LISTS = ("list", "List", "Sequence")


def read_udfs(source: str) -> tuple[Udf, ...]:
    """Return the functions that a file declares; raises `UserError` with the line."""
    try:
        module = ast.parse(source)
    except SyntaxError as error:
        raise UserError(
            f"the UDF file has a syntax error in line {error.lineno}: {error.msg}", code="udf"
        ) from error
    except ValueError as error:
        raise UserError(f"the UDF file cannot be read: {error}", code="udf") from error
    found: dict[str, Udf] = {}
    for node in module.body:
        kind = _decorator(node) if isinstance(node, ast.FunctionDef) else None
        if isinstance(node, ast.FunctionDef) and kind is not None:
            udf = _udf(node, aggregate=kind == "udaf")
            if udf.name.lower() in found:
                raise _error(node, f"function '{udf.name}' is declared twice")
            found[udf.name.lower()] = udf
        elif isinstance(node, ast.AsyncFunctionDef) and _decorator(node) is not None:
            raise _error(node, "async functions are not supported")
    return tuple(found.values())


def _decorator(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
        if name in ("udf", "udaf"):
            return str(name)
    return None


def _udf(node: ast.FunctionDef, *, aggregate: bool) -> Udf:
    arguments = node.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults:
        raise _error(node, "takes plain positional arguments only")
    if node.name.lower() in SPARK_FUNCTIONS:
        raise _error(node, "has the name of a function of Spark: choose another")
    types = []
    for argument in [*arguments.posonlyargs, *arguments.args]:
        if argument.annotation is None:
            raise _error(node, f"argument '{argument.arg}' needs a type hint")
        kind = _type(argument.annotation, node)
        if aggregate and not kind.startswith("array<"):
            raise _error(node, f"argument '{argument.arg}' of a @udaf is a list: write list[...]")
        types.append(kind)
    if node.returns is None:
        raise _error(node, "needs a type hint for its result")
    if aggregate and not types:
        raise _error(node, "an aggregate needs at least one argument")
    return Udf(
        name=node.name,
        arguments=tuple(types),
        returns=_type(node.returns, node),
        aggregate=aggregate,
    )


def _type(hint: ast.expr, node: ast.FunctionDef) -> str:
    """Return the Spark type of a hint; `T | None` and `Optional[T]` are T."""
    if isinstance(hint, ast.Constant) and isinstance(hint.value, str):
        return _type(ast.parse(hint.value, mode="eval").body, node)
    if isinstance(hint, ast.BinOp) and isinstance(hint.op, ast.BitOr):
        sides = [s for s in (hint.left, hint.right) if not _is_none(s)]
        if len(sides) == 1:
            return _type(sides[0], node)
    name = hint.attr if isinstance(hint, ast.Attribute) else getattr(hint, "id", None)
    if name in _TYPES:
        return _TYPES[str(name)]
    if isinstance(hint, ast.Subscript):
        outer = hint.value
        outer_name = outer.attr if isinstance(outer, ast.Attribute) else getattr(outer, "id", "")
        if outer_name in _LISTS:
            return f"array<{_type(hint.slice, node)}>"
        if outer_name == "Optional":
            return _type(hint.slice, node)
        if outer_name in ("dict", "Dict") and isinstance(hint.slice, ast.Tuple):
            key, value = hint.slice.elts
            return f"map<{_type(key, node)},{_type(value, node)}>"
    raise _error(node, f"the type hint '{ast.unparse(hint)}' has no SQL type")


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _error(node: ast.FunctionDef | ast.AsyncFunctionDef, message: str) -> UserError:
    return UserError(f"UDF '{node.name}' (line {node.lineno}): {message}", code="udf")
