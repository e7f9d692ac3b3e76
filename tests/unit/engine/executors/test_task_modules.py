"""The libraries that executors must have are those that tasks import."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache

import pytest

from headgate.connectors.registry import connectors
from headgate.engine.executors.archive import shipped_distributions
from headgate.engine.executors.facts import TASK_MODULES

IMPORTED = """
import json, sys
from importlib import import_module
from importlib.metadata import packages_distributions
for module in sys.argv[1:]:
    import_module(module)
named = packages_distributions()
tops = {module.partition(".")[0] for module in list(sys.modules)}
print(json.dumps({top: named[top] for top in tops if top in named}))
"""
# A hook of the installation, not a library.
NOT_NEEDED = {"_distutils_hack"}


@cache
def imported(*modules: str) -> dict[str, list[str]]:
    """Return what comes with these modules: module -> distributions."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *modules], capture_output=True, text=True, check=True
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return {top: names for top, names in found.items() if top not in NOT_NEEDED}


WORKERS = ("headgate.engine.jvm.preloaded", "headgate.engine.batch.udfs", "headgate.storage.s3")


def test_every_library_of_the_python_workers_is_compared() -> None:
    assert set(TASK_MODULES) <= imported(*WORKERS).keys()


@pytest.mark.parametrize(
    ("connector", "modules"),
    [
        ("kafka", ("headgate.connectors.kafka.sink", "headgate.connectors.kafka.reading")),
        ("postgres", ("headgate.connectors.postgres.sink", "headgate.connectors.postgres.lookup")),
    ],
)
def test_what_a_connector_needs_in_tasks_is_what_its_descriptor_says(
    connector: str, modules: tuple[str, ...]
) -> None:
    (found,) = [c for c in connectors() if c.name == connector]
    more = imported(*WORKERS, *modules).keys() - imported(*WORKERS).keys()
    assert set(found.task_modules) <= more


def test_a_package_has_everything_that_tasks_import() -> None:
    modules = (
        *WORKERS,
        "headgate.connectors.kafka.sink",
        "headgate.connectors.kafka.reading",
        "headgate.connectors.postgres.sink",
        "headgate.connectors.postgres.lookup",
    )
    shipped = shipped_distributions().keys()
    needed = {n.replace("_", "-").lower() for names in imported(*modules).values() for n in names}
    # PySpark comes with the cluster's own Spark.
    assert needed - shipped == {"pyspark", "py4j"}
