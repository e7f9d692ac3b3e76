"""Wrong types, as a person sees them: all of a text at once, each in its place, before a start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SQL = """CREATE TABLE orders (id BIGINT, shop TEXT, tags TEXT[]) WITH (
  connector = 'single_file', path = 'orders.json', format = 'json', type = 'source'
);
SELECT upper(shop, 1) AS a, id AS b,
  id + shop AS c
FROM orders;
"""
TOLD = """error: upper() takes 1 argument, but 2 are given
 --> line 4, column 8
  |
4 | SELECT upper(shop, 1) AS a, id AS b,
  |        ^

error: 'shop' is TEXT, and + computes with numbers: write CAST(shop AS BIGINT) if it holds numbers
 --> line 5, column 3
  |
5 |   id + shop AS c
  |   ^
"""


@pytest.mark.parametrize("command", ["plan", "run"])
def test_every_wrong_type_is_shown_in_its_place(tmp_path: Path, command: str) -> None:
    (tmp_path / "shop.sql").write_text(SQL)
    refused = subprocess.run(
        (sys.executable, "-m", "headgate", command, "shop.sql"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr == TOLD
    assert [path.name for path in tmp_path.iterdir()] == ["shop.sql"]
