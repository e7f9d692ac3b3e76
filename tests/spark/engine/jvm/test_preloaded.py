"""The process that Spark's Python workers are forked from has what tasks need, and no more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import headgate.operators

IMPORTED = "import sys, headgate.engine.jvm.preloaded; print(*sys.modules)"


def imported() -> set[str]:
    found = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True
    )
    return set(found.stdout.split())


def test_workers_need_not_import_what_an_operator_runs_in_tasks() -> None:
    folder = Path(headgate.operators.__path__[0])
    tasks = {
        f"headgate.operators.{file.parent.name}.{file.stem}" for file in folder.glob("*/*task.py")
    }
    assert "headgate.operators.window_aggregate.session_task" in tasks
    assert tasks <= imported()


def test_what_only_the_driver_needs_delays_no_first_task() -> None:
    modules = imported()
    assert "sqlglot" not in modules
    assert "headgate.engine.plan.builder" not in modules
    assert not {name for name in modules if name.startswith("headgate.planner")}
