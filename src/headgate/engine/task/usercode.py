"""Running the user's Python: loading it inside a task, and saying well what went wrong there."""

from __future__ import annotations

import hashlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import ModuleType
from typing import Any

from headgate.core.errors import HeadgateError, UdfError
from headgate.udf import udaf, udf

SAMPLE_CHARACTERS_MAX = 1000


@lru_cache(maxsize=32)
def module_namespace(source: str, name: str) -> dict[str, Any]:
    """Run the text of a user's file once per process and return what it defines."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    module = ModuleType(f"headgate_user_{digest}")
    module.__dict__.update({"__file__": name, "udf": udf, "udaf": udaf})
    # Dataclasses and the like look their module up by its name.
    sys.modules[module.__name__] = module
    with user_code(f"the file {name}"):
        exec(compile(source, name, "exec", dont_inherit=True), module.__dict__)
    return module.__dict__


def attribute_of_file(path: str, attribute: str, text: str) -> Any:
    """Return what a user's file, of this text, defines under a name. No file is read."""
    namespace = module_namespace(text, os.path.basename(path))
    if attribute not in namespace:
        raise UdfError(f"the Python file {path} defines no '{attribute}'")
    return namespace[attribute]


@contextmanager
def user_code(what: str, sample: Callable[[], object] | None = None) -> Iterator[None]:
    """Turn whatever the user's code raises into a `UdfError` that names it and shows a row."""
    try:
        yield
    except HeadgateError:
        raise
    except Exception as error:  # The boundary to code that is not ours: kept, and named.
        shown = "" if sample is None else f" on {shortened(sample())}"
        raise UdfError(
            f"{what} raised {type(error).__name__}: {error}{shown}",
            detail="".join(traceback.format_exception(error))[-6000:],
        ) from error


def shortened(sample: object) -> str:
    text = repr(sample)
    return text if len(text) <= SAMPLE_CHARACTERS_MAX else text[:SAMPLE_CHARACTERS_MAX] + "..."
