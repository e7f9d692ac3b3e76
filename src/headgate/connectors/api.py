"""The public contract of connectors: everything that a connector outside the project may import.

What is named here is stable: it changes incompatibly only with `API_VERSION`, which the registry
compares with the version that a connector was written for. Everything else in `headgate` may
change at any time. `docs/writing-a-connector.md` builds a connector from these names, and
`headgate.testing` has the tests that it must pass.
"""

from __future__ import annotations

from headgate.connectors.base import (
    BAD_COLUMN,
    BAD_POSITION_COLUMN,
    BAD_RAW_COLUMN,
    BAD_SAMPLE_COLUMN,
    EVENT_TIME_COLUMN,
    BadRow,
    ExplainingSource,
    FencedSink,
    KeyedLookup,
    KnowingSource,
    KnownRows,
    Lookup,
    LookupCache,
    NamedSink,
    ReachCheck,
    ReachedInTasks,
    RowJudge,
    Sink,
    Source,
    SourceCut,
    SpreadSink,
    StageContext,
    StageWriter,
    SteppingSource,
    WatchedSource,
)
from headgate.connectors.descriptor import (
    API_VERSION,
    Connector,
    Guarantee,
    LookupPart,
    Role,
    SinkPart,
    SourcePart,
)
from headgate.connectors.options import (
    Bytes,
    ConnectorOptions,
    Moment,
    Names,
    Nanoseconds,
    Seconds,
    moment_us,
    parse_options,
)
from headgate.connectors.secrets import Secret, Secrets
from headgate.core.checkpoint import StagedFile
from headgate.core.durations import parse_nanoseconds
from headgate.core.errors import BadDataError, ExternalError, StorageError, UserError
from headgate.core.failpoints import failpoint
from headgate.core.graph import OP_COLUMN, Column
from headgate.core.ids import Epoch, Generation, JobId, OperatorId
from headgate.core.model import JsonValue
from headgate.operators import LookupJoinSpec, SinkSpec, SourceSpec

__all__ = [
    "API_VERSION",
    "BAD_COLUMN",
    "BAD_POSITION_COLUMN",
    "BAD_RAW_COLUMN",
    "BAD_SAMPLE_COLUMN",
    "EVENT_TIME_COLUMN",
    "OP_COLUMN",
    "BadDataError",
    "BadRow",
    "Bytes",
    "Column",
    "Connector",
    "ConnectorOptions",
    "Epoch",
    "ExplainingSource",
    "ExternalError",
    "FencedSink",
    "Generation",
    "Guarantee",
    "JobId",
    "JsonValue",
    "KeyedLookup",
    "KnowingSource",
    "KnownRows",
    "Lookup",
    "LookupCache",
    "LookupJoinSpec",
    "LookupPart",
    "Moment",
    "NamedSink",
    "Names",
    "Nanoseconds",
    "OperatorId",
    "ReachCheck",
    "ReachedInTasks",
    "Role",
    "RowJudge",
    "Seconds",
    "Secret",
    "Secrets",
    "Sink",
    "SinkPart",
    "SinkSpec",
    "Source",
    "SourceCut",
    "SourcePart",
    "SourceSpec",
    "SpreadSink",
    "StageContext",
    "StageWriter",
    "StagedFile",
    "SteppingSource",
    "StorageError",
    "UserError",
    "WatchedSource",
    "failpoint",
    "moment_us",
    "parse_nanoseconds",
    "parse_options",
]
