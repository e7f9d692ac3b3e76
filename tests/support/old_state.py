"""Checkpoints that an earlier version has written, kept as fixtures, and how they are gone on with.

`tests/fixtures/state-vN/` holds pipelines, their input, and for each pipeline `NAME.tar.gz`: the
state folder and the output as they were after the first half of the input, and `NAME.json`: the
rows of the whole output. `tests/fixtures/make_state.py` writes them.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from headgate.core.graph import PipelineGraph
from headgate.planner import plan
from tests.support.harness import PipelineHarness

REPOSITORY = Path(__file__).parents[2]
FIXTURES = REPOSITORY / "tests" / "fixtures"
PARALLELISM = 2
# Half of the rows of each input.
ROWS_PER_BATCH = 40
# The source of a folder reads files by their time, which no version control keeps.
_MODIFIED = 1_700_000_000


@dataclass(frozen=True)
class OldState:
    """One pipeline of one version's fixtures."""

    folder: Path
    name: str

    def __str__(self) -> str:
        return f"{self.folder.name}-{self.name}"

    @property
    def archive(self) -> Path:
        return self.folder / f"{self.name}.tar.gz"

    @property
    def expected(self) -> Path:
        return self.folder / f"{self.name}.json"

    def graph(self) -> PipelineGraph:
        tables = (self.folder / "tables.sql").read_text()
        return plan(tables + (self.folder / "pipelines" / f"{self.name}.sql").read_text())

    @contextmanager
    def laid_out(self, spark: SparkSession, root: Path) -> Iterator[PipelineHarness]:
        """Lay the input out below `root` and stand there: all paths of a pipeline are relative."""
        shutil.copytree(self.folder / "input", root / "input")
        for path in (root / "input").rglob("*"):
            os.utime(path, (_MODIFIED, _MODIFIED))
        (root / "output").mkdir(exist_ok=True)
        # User code is read where Spark was started, too.
        (root / "tests").symlink_to(REPOSITORY / "tests")
        with chdir(root):
            yield PipelineHarness(spark, self.graph(), root)

    def pack(self, root: Path) -> None:
        with tarfile.open(self.archive, "w:gz") as archive:
            for name in ("state", "output"):
                archive.add(root / name, name)

    def unpack(self, root: Path) -> None:
        with tarfile.open(self.archive) as archive:
            archive.extractall(root, filter="data")


def old_states() -> list[OldState]:
    """Return every fixture there is, of every version."""
    return [
        OldState(folder, file.stem)
        for folder in sorted(FIXTURES.glob("state-v*"))
        for file in sorted((folder / "pipelines").glob("*.sql"))
    ]


def rows_of(output: Path) -> list[str]:
    """Return the rows that an output amounts to, sorted; changes are applied one by one."""
    rows: Counter[str] = Counter()
    for file in sorted(p for p in output.rglob("*") if p.is_file() and not p.name.startswith(".")):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            if row.keys() == {"before", "after", "op"}:
                _apply(rows, row)
            else:
                rows[json.dumps(row, sort_keys=True)] += 1
    return sorted(rows.elements())


def _apply(rows: Counter[str], change: dict[str, object]) -> None:
    if change["before"] is not None:
        before = json.dumps(change["before"], sort_keys=True)
        assert rows[before] > 0, f"removes a row that is not there: {change}"
        rows[before] -= 1
    if change["after"] is not None:
        rows[json.dumps(change["after"], sort_keys=True)] += 1
