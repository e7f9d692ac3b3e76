"""A micro-batch that takes long is told of while it runs."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.cli import HeadgateProcess

SQL = """CREATE TABLE numbers (n BIGINT) WITH (
  connector = 'single_file', path = '{folder}/in.json', format = 'json', type = 'source'
);
CREATE TABLE out (n BIGINT) WITH (
  connector = 'single_file', path = '{folder}/out.json', format = 'json', type = 'sink'
);
INSERT INTO out SELECT when_allowed(n) AS n FROM numbers;
"""
# Returns when the test says so.
FUNCTIONS = """import time
from pathlib import Path
from headgate import udf

@udf
def when_allowed(n: int) -> int:
    deadline = time.monotonic() + 240
    while not Path('{folder}/allowed').exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return n
"""


def test_worker_says_how_long_its_batch_has_run(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('{"n": 7}\n')
    (tmp_path / "slow.sql").write_text(SQL.format(folder=tmp_path))
    (tmp_path / "slow.py").write_text(FUNCTIONS.format(folder=tmp_path))
    run = HeadgateProcess("run", str(tmp_path / "slow.sql"), "--state-dir", str(tmp_path / "state"))
    seen = 0.0
    while seen < 1_500:
        progress = run.wait_for("ProgressMade")["progress"]
        assert progress["batch_running_ms"] == 0 or progress["batch_running_ms"] > seen
        seen = progress["batch_running_ms"]
    (tmp_path / "allowed").touch()
    assert run.finish() == 0
    assert [json.loads(line) for line in (tmp_path / "out.json").read_text().splitlines()] == [
        {"n": 7}
    ]
