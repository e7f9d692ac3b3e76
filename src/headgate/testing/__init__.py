"""The test kit for connectors: the contract of `headgate.connectors.api` as suites of tests.

Subclass `SourceContract` or `SinkContract` in a test file, say how your connector is opened and
what its input or its target holds, and run pytest. `spark` is the fixture that the suites read
with: import it in your `conftest.py`. The rest is what the suites themselves are made of. Installed
with `headgate[testing]`; nothing else in Headgate imports pytest.
"""

from __future__ import annotations

import pytest

# Before the modules are imported: their assertions then show the values that they compare.
pytest.register_assert_rewrite("headgate.testing.sinks", "headgate.testing.sources")

from headgate.testing.opening import columns, open_sink, open_source  # noqa: E402
from headgate.testing.publishing import PublishOutcome, publish_elsewhere  # noqa: E402
from headgate.testing.session import spark  # noqa: E402
from headgate.testing.sinks import SinkContract  # noqa: E402
from headgate.testing.sources import SourceContract, cut_positions, read_rows  # noqa: E402
from headgate.testing.staging import MemoryWriter, StagedEpoch, stage_epoch  # noqa: E402

__all__ = [
    "MemoryWriter",
    "PublishOutcome",
    "SinkContract",
    "SourceContract",
    "StagedEpoch",
    "columns",
    "cut_positions",
    "open_sink",
    "open_source",
    "publish_elsewhere",
    "read_rows",
    "spark",
    "stage_epoch",
]
