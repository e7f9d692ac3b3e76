"""What only Spark can refuse, as a person sees it: `headgate run` says it once, with its place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SQL = """CREATE TABLE rows (tags TEXT[], n BIGINT) WITH (
  connector = 'single_file', path = 'rows.json', format = 'json', type = 'source'
);
CREATE TABLE out (n BIGINT, text TEXT) WITH (
  connector = 'single_file', path = 'out.json', format = 'json', type = 'sink'
);
CREATE VIEW cut AS SELECT n,
  concat(substring(tags, 1, 2), 'x') AS text FROM rows;
INSERT INTO out SELECT n + 1, text FROM cut WHERE n > 3;
"""
PLACE = """error: Spark refuses this expression
 --> line 8, column 10
  |
8 |   concat(substring(tags, 1, 2), 'x') AS text FROM rows;
  |          ^
"""


def test_what_only_spark_refuses_fails_once_and_is_shown_in_the_sql(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text('{"tags": ["a"], "n": 5}\n')
    (tmp_path / "cut.sql").write_text(SQL)
    run = subprocess.run(
        (sys.executable, "-m", "headgate", "run", "cut.sql", "--state-dir", "state"),
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "300"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 1, run.stderr
    assert run.stdout == ""
    assert run.stderr.count('Cannot resolve "substring(tags, 1, 2)"') == 1, run.stderr
    assert run.stderr.count(PLACE) == 1, run.stderr
    assert "code spark.DATATYPE_MISMATCH" in run.stderr
    for word in ("SQLSTATE", "Traceback", "retry", "again in", "'Project"):
        assert word not in run.stderr, run.stderr
    # One worker was started, and none after it.
    assert "generation 2" not in run.stderr
