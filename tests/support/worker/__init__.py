"""The one stand-in for a worker: it speaks the protocol, runs any graph, and needs no Spark.

`counting.py` is the worker itself, an object that hears messages and says events; its sources count
rows, its sinks publish the ranges that were read. `traits.py` says how it behaves, `targets.py`
where it publishes, `__main__.py` makes a process of it that a controller starts. The simulation
drives the real rules of a worker instead: `tests/simulation/worker.py`.
"""

from __future__ import annotations

from pathlib import Path

# What a controller runs with Python: its own arguments follow.
WORKER = Path(__file__).with_name("__main__.py")
