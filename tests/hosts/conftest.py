"""A network of hosts for every test here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hosts import Network
from tests.support.needed import need_hosts


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    need_hosts()
    with Network(logs=tmp_path / "logs") as made:
        yield made
