"""The file of a pipeline: SQL text, or a Python file that defines a `Pipeline`.

Functions of a SQL file stand in a Python file beside it: `totals.py` beside `totals.sql`.
"""

from __future__ import annotations

import ast
import sys
import traceback
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.core.errors import HeadgateError, UserError

if TYPE_CHECKING:
    from headgate.pipeline import Pipeline

# If a file defines several pipelines, the one of this name is meant.
PREFERRED = "pipeline"
# In the place of a file: the text is read from standard input.
STANDARD_INPUT = Path("-")
# The job of such a text, if no other name is given.
STANDARD_INPUT_NAME = "stdin"

_MARKS = ("udf", "udaf")


@dataclass(frozen=True)
class GivenPipeline:
    """What a person wants to be run: the name of the job, its SQL, its functions."""

    name: str
    sql: str
    udf_source: str | None
    # The file that was found beside the SQL: nobody has named it, so people are told.
    found_udfs: Path | None = None

    def told(self) -> str | None:
        """Say which functions were taken without being named; None = none were."""
        if self.found_udfs is None:
            return None
        return f"functions: {self.found_udfs}, found beside the SQL (--udfs names another file)"


def read_pipeline(file: Path, udfs: Path | None) -> GivenPipeline:
    """Read a pipeline; a name that ends in `.py` is Python, anything else is SQL."""
    if file.suffix != ".py":
        return read_sql_pipeline(file, udfs)
    if udfs is not None:
        raise UserError("--udfs belongs to SQL files: a Pipeline has `udf` and `udf_file`")
    pipeline = load_pipeline(file)
    return GivenPipeline(pipeline.name, pipeline.to_sql(), pipeline.udf_source)


def read_sql_pipeline(file: Path, udfs: Path | None) -> GivenPipeline:
    """Read SQL and its functions; `-` is standard input.

    Without `udfs` they are those of the Python file beside it, if it marks any. Raises `UserError`
    if something cannot be read.
    """
    if file == STANDARD_INPUT:
        name, sql, beside = STANDARD_INPUT_NAME, _read_standard_input(), None
    else:
        name, sql = file.stem, read_text(file, "SQL file")
        beside = functions_beside(file) if udfs is None else None
    taken = udfs or beside
    source = None if taken is None else read_text(taken, "UDF file")
    return GivenPipeline(name, sql, source, found_udfs=beside)


def functions_beside(file: Path) -> Path | None:
    """Return the Python file of a SQL file's name if it marks functions; it is not run.

    A file that makes a `Pipeline` is a pipeline of its own, whatever functions it has.
    """
    beside = file.with_suffix(".py")
    if beside == file or not beside.is_file():
        return None
    source = read_text(beside, "Python file")
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError):
        # Whoever plans it says what is wrong and where, but only with what claims to be functions.
        return beside if any(f"@{mark}" in source for mark in _MARKS) else None
    nodes = list(ast.walk(module))
    if any(isinstance(node, ast.Call) and _name_of(node.func) == "Pipeline" for node in nodes):
        return None
    marked = any(
        _name_of(decorator.func if isinstance(decorator, ast.Call) else decorator) in _MARKS
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for decorator in node.decorator_list
    )
    return beside if marked else None


def _name_of(node: ast.expr) -> str | None:
    """Return the last part of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)


def _read_standard_input() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UserError(f"what came on standard input is not UTF-8 text: {error}") from error


def read_text(path: Path, what: str) -> str:
    """Read a file the user named."""
    try:
        return path.read_text()
    except OSError as error:
        raise UserError(f"cannot read the {what} '{path}': {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"the {what} '{path}' is not UTF-8 text: {error}") from error


def load_pipeline(file: Path) -> Pipeline:
    """Run a Python file and return the pipeline that it defines."""
    from headgate.pipeline import Pipeline

    namespace = _run_file(file)
    found = {name: value for name, value in namespace.items() if isinstance(value, Pipeline)}
    if PREFERRED in found:
        return found[PREFERRED]
    distinct = {id(pipeline): pipeline for pipeline in found.values()}
    if len(distinct) == 1:
        return next(iter(distinct.values()))
    if not distinct:
        raise UserError(f"'{file}' defines no Pipeline at its top level")
    names = ", ".join(sorted(found))
    raise UserError(f"'{file}' defines several pipelines ({names}): name one of them `pipeline`")


def _run_file(file: Path) -> dict[str, Any]:
    read_text(file, "Python file")
    spec = spec_from_file_location(f"headgate_pipeline_{file.stem}", file.absolute())
    if spec is None or spec.loader is None:
        raise UserError(f"'{file}' cannot be loaded as Python")
    module = module_from_spec(spec)
    # What the file defines is looked up by its module's name; its neighbours can be imported.
    sys.modules[spec.name] = module
    sys.path.insert(0, str(file.absolute().parent))
    try:
        spec.loader.exec_module(module)
    except HeadgateError:
        raise
    except Exception as error:  # The boundary to code that is not ours: kept, and named.
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise UserError(
            f"'{file}' raised {type(error).__name__}: {error} ({place.filename}:{place.lineno})",
            detail="".join(traceback.format_exception(error)),
        ) from error
    finally:
        sys.path.remove(str(file.absolute().parent))
    return vars(module)
