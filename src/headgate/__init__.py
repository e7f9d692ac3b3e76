"""Headgate: streaming SQL pipelines on Apache Spark, recovered exactly once.

`Pipeline` builds and runs a pipeline from Python; `udf` and `udaf` mark functions for SQL;
`ProcessOperator` is the base of stateful code.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

# Imported here and now: the module has the name of a mark, and importing it later would put the
# module in the mark's place.
from headgate.udf import udaf, udf

if TYPE_CHECKING:
    from headgate.pipeline import Pipeline
    from headgate.process import ProcessContext, ProcessOperator

__version__ = "0.1.0"
__all__ = ["Pipeline", "ProcessContext", "ProcessOperator", "udaf", "udf"]

_HOMES = {
    "Pipeline": "headgate.pipeline",
    "ProcessContext": "headgate.process",
    "ProcessOperator": "headgate.process",
}


def __getattr__(name: str) -> object:
    """Import on first use: every command and every task imports this package."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'headgate' has no attribute '{name}'")
