"""The descriptor of the postgres connector.

It is found by an entry point, as the connectors of other packages are: what it needs (psycopg) is
an extra, and may be missing.
"""

from __future__ import annotations

from headgate.connectors.api import (
    Connector,
    KeyedLookup,
    LookupJoinSpec,
    LookupPart,
    Sink,
    SinkPart,
    SinkSpec,
)
from headgate.connectors.postgres.config import PostgresLookupOptions, PostgresSinkOptions


def _open_sink(spec: SinkSpec) -> Sink:
    from headgate.connectors.postgres.sink import PostgresSink

    return PostgresSink(spec)


def _open_lookup(spec: LookupJoinSpec) -> KeyedLookup:
    from headgate.connectors.postgres.lookup import PostgresLookup

    return PostgresLookup(spec)


CONNECTOR = Connector(
    name="postgres",
    api_version=1,
    sink=SinkPart(PostgresSinkOptions, _open_sink, guarantee="exactly_once", updating=True),
    lookup=LookupPart(PostgresLookupOptions, _open_lookup),
    task_modules=("psycopg",),
)
