"""State tables: sorted immutable runs, searched by numpy in memory-mapped Arrow files.

A micro-batch is a pure function: a task opens a version (`version.py`, plain data), reads files
that never change, writes files under names nobody else uses, and returns the next version.
Nothing here knows Spark, and no row is ever handled one at a time. Read `base.py` first (the life
of a table), then `time_table.py`, `keyed_table.py` and `multi_table.py`.
"""

from headgate.state.tables.io import TableIo, WriteStats
from headgate.state.tables.keyed_table import KeyedTable
from headgate.state.tables.multi_table import MultiTable
from headgate.state.tables.time_table import TimeTable
from headgate.state.tables.version import (
    ScratchRun,
    TableVersion,
    decode_schema,
    encode_schema,
    state_from_version,
    version_from_state,
)

__all__ = [
    "KeyedTable",
    "MultiTable",
    "ScratchRun",
    "TableIo",
    "TableVersion",
    "TimeTable",
    "WriteStats",
    "decode_schema",
    "encode_schema",
    "state_from_version",
    "version_from_state",
]
