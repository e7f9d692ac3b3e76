"""The text of a Python function and of everything it needs, so that it can run elsewhere.

A function travels to the workers as text. Of its file only what it uses goes with it: imports,
constants, other functions and classes at the top level, followed name by name. So the file may
also build the pipeline and run it, which must not happen again in every worker.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from headgate.core.errors import UserError


@dataclass
class FunctionTexts:
    """Gathers functions; `source` is the file that the planner and the workers read."""

    # By the file they come from, the lines that are needed of it, in their order.
    _parts: dict[str, dict[int, str]] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _files: list[str] = field(default_factory=list)

    def add_file(self, text: str) -> None:
        """Take a whole file, as `headgate run --udfs` does."""
        self._files.append(text)

    def add(self, function: Callable[..., Any], mark: str) -> None:
        """Take one function; `mark` is its decorator: `udf`, `udf(vectorized=True)`, `udaf`."""
        name = getattr(function, "__name__", "")
        code = getattr(function, "__code__", None)
        if code is None or not name.isidentifier() or code.co_freevars:
            raise _error(name or repr(function), "is no plain function at the top of a file")
        file = inspect.getsourcefile(function) or "?"
        try:
            lines = [line.rstrip("\n") for line in inspect.findsource(function)[0]]
            module = ast.parse("\n".join(lines))
        except (OSError, TypeError, SyntaxError) as error:
            message = f"has no source text that could be sent to workers: {error}"
            raise _error(name, message) from error
        node = _definition(module, name)
        if node is None:
            raise _error(name, "is not defined at the top level of its file")
        if self._names.setdefault(name, file) != file:
            raise _error(name, f"is declared twice, in {self._names[name]} and in {file}")
        parts = self._parts.setdefault(file, {})
        for needed in _needed(module, node):
            parts.setdefault(needed.lineno, _text(needed, lines))
        # The decorator in the file may be the pipeline's own, which the workers do not have.
        bare = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        parts[node.lineno] = f"@{mark}\n{bare}"

    @property
    def source(self) -> str | None:
        """Return one file with all functions; None if there are none."""
        if not self._files and not self._parts:
            return None
        texts = list(self._files)
        for parts in self._parts.values():
            marks = "from headgate.udf import udaf, udf"
            texts.append("\n\n".join([marks, *(parts[line] for line in sorted(parts))]))
        return "\n\n".join(texts) + "\n"


def _definition(module: ast.Module, name: str) -> ast.FunctionDef | None:
    found = [n for n in module.body if isinstance(n, ast.FunctionDef) and n.name == name]
    return found[-1] if found else None


def _needed(module: ast.Module, function: ast.FunctionDef) -> list[ast.stmt]:
    """Return the top-level statements that a function needs, itself left out."""
    defined: dict[str, list[ast.stmt]] = {}
    for statement in module.body:
        for name in _binds(statement):
            defined.setdefault(name, []).append(statement)
    found: dict[int, ast.stmt] = {}
    waiting: list[ast.AST] = [function.args, *function.body]
    waiting += [function.returns] if function.returns is not None else []
    while waiting:
        for node in ast.walk(waiting.pop()):
            names = defined.get(node.id, []) if isinstance(node, ast.Name) else []
            for statement in names:
                if statement is not function and id(statement) not in found:
                    found[id(statement)] = statement
                    waiting.append(statement)
    return list(found.values())


def _binds(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in names)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            for target in targets:
                yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _text(statement: ast.stmt, lines: list[str]) -> str:
    first = statement.lineno
    decorators = getattr(statement, "decorator_list", [])
    if decorators:
        first = min(d.lineno for d in decorators)
    return "\n".join(lines[first - 1 : statement.end_lineno])


def _error(name: str, message: str) -> UserError:
    return UserError(f"function '{name}' {message}", code="udf")
