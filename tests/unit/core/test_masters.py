"""What the address of a master says about where tasks run."""

from __future__ import annotations

import pytest

from headgate.core.masters import is_local, is_this_machine


@pytest.mark.parametrize(
    ("master", "local", "here"),
    [
        ("local", True, True),
        ("local[4]", True, True),
        ("local[*,4]", True, True),
        ("spark://127.0.0.1:7077", False, True),
        ("spark://127.8.8.8:7077", False, True),
        ("spark://localhost:7077", False, True),
        ("spark://[::1]:7077", False, True),
        ("spark://10.0.0.5:7077", False, False),
        ("spark://localhost.example:7077", False, False),
        ("spark://127.0.0.1.example:7077", False, False),
        ("spark://127.0.0.1:7077,10.0.0.5:7077", False, False),
        ("yarn", False, False),
        ("k8s://https://127.0.0.1:6443", False, False),
    ],
)
def test_masters(master: str, local: bool, here: bool) -> None:
    assert (is_local(master), is_this_machine(master)) == (local, here)
