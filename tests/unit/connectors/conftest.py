"""Fixtures of the connectors' tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.connectors import registry
from tests.support.packages import InstalledPackages


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[InstalledPackages]:
    """Packages that are installed as long as the test runs."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield InstalledPackages(tmp_path / "packages", monkeypatch)
    registry.forget_installed()
