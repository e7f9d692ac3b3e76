"""The file of a pipeline: SQL text, or a Python file that defines a `Pipeline`."""

from __future__ import annotations

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


@dataclass(frozen=True)
class GivenPipeline:
    """What a person wants to be run: the name of the job, its SQL, its functions."""

    name: str
    sql: str
    udf_source: str | None


def read_pipeline(file: Path, udfs: Path | None) -> GivenPipeline:
    """Read a pipeline; a name that ends in `.py` is Python, anything else is SQL."""
    if file.suffix != ".py":
        udf_source = read_text(udfs, "UDF file") if udfs is not None else None
        return GivenPipeline(file.stem, read_text(file, "SQL file"), udf_source)
    if udfs is not None:
        raise UserError("--udfs belongs to SQL files: a Pipeline has `udf` and `udf_file`")
    pipeline = load_pipeline(file)
    return GivenPipeline(pipeline.name, pipeline.to_sql(), pipeline.udf_source)


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
