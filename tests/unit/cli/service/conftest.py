"""One service for the tests of the commands that talk to one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.server.serving import Running, serving


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("service")) as found:
        yield found
