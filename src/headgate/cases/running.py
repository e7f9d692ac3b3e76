"""Runs a case in a Spark session, straight through or as a plan of lives says."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.cases.comparing import Difference, Row, compare
from headgate.cases.document import CaseFileError, LocatedCase
from headgate.cases.lines import check_columns
from headgate.cases.script import Marks, Script
from headgate.cases.scripted import OP, CollectedSink, ScriptedLookup, ScriptedSource
from headgate.cases.staging import ReadPipeline, StagedCase, Wanted, pipeline_of, stage
from headgate.core.errors import ErrorInfo, HeadgateError, SqlError, error_info
from headgate.core.failpoints import observed
from headgate.core.ids import Epoch, OperatorId
from headgate.rehearsal import Checkpoints, Killed, Outcome, Rehearsal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Life:
    """One generation of a run. `kill_at`: a failpoint, and at which passage of it."""

    parallelism: int = 1
    rows_per_batch: int = 1_000_000
    kill_at: tuple[str, int] | None = None
    # After which micro-batches a checkpoint begins.
    barriers: frozenset[int] = frozenset()


@dataclass(frozen=True)
class TableDifferences:
    """How the rows of one table differ from those expected, and after which step."""

    table: str
    step: int | None
    differences: tuple[Difference, ...]


@dataclass
class Ran:
    """What a run came to."""

    outcomes: list[Outcome]
    error: ErrorInfo | None
    # What each sink holds in the end: as a reader finds it.
    rows: dict[OperatorId, list[Row]]
    differences: list[TableDifferences]
    marks: Marks
    # Failpoint -> how often the run passed it.
    points: Counter[str]


@dataclass
class Result:
    """What a case came to."""

    located: LocatedCase
    seconds: float = 0.0
    # Why it failed, in sentences; empty and no differences = it passed.
    problems: list[str] = field(default_factory=list)
    differences: list[TableDifferences] = field(default_factory=list)
    # The seeds of the runs with kills that it went through.
    chaos_seeds: list[int] = field(default_factory=list)
    # The case itself cannot be run: nothing is known of the pipeline.
    invalid: bool = False

    @property
    def passed(self) -> bool:
        return not (self.problems or self.differences)


class SparkUnavailable(Exception):
    """There is no session: no case can be run. Its cause says why."""


class Stopped(Exception):
    """Ctrl-C: no further case is begun."""


class CaseRunner:
    """Runs cases, one after the other, in one session."""

    def __init__(self, spark: Callable[[], SparkSession], read: ReadPipeline) -> None:
        """`spark` is asked when the first case runs: cases that are refused need no session."""
        self._spark = spark
        self._read = read
        self._lock = threading.Lock()
        self._rehearsal: Rehearsal | None = None
        self._stopped = False

    def stop(self) -> None:
        """End the case that runs; nothing is run after it. Any thread may call it."""
        with self._lock:
            self._stopped = True
            rehearsal = self._rehearsal
        if rehearsal is not None:
            rehearsal.cancel()

    def run(self, located: LocatedCase) -> tuple[Result, StagedCase | None, Ran | None]:
        """Run a case straight through, and say how it differs from what it expects."""
        result, started = Result(located), time.perf_counter()
        staged, ran = None, None
        try:
            staged = self._staged(located)
            # Spark is not what the case is about: the first one does not pay for its start.
            self._session()
            started = time.perf_counter()
            ran = self.play(staged, [Life()])
            self._judge(result, staged, ran)
        except SqlError as error:
            _judge_error(result, error_info(error))
        except CaseFileError as error:
            result.invalid = True
            result.problems.append(error.message)
        except HeadgateError as error:
            _judge_error(result, error_info(error))
        result.seconds = time.perf_counter() - started
        return result, staged, ran

    def _session(self) -> SparkSession:
        try:
            return self._spark()
        except HeadgateError as error:
            raise SparkUnavailable from error

    def _staged(self, located: LocatedCase) -> StagedCase:
        sql, udf_source = pipeline_of(located, self._read)
        return stage(located, sql, udf_source)

    def _judge(self, result: Result, staged: StagedCase, ran: Ran) -> None:
        if ran.error is not None:
            _judge_error(result, ran.error)
        elif staged.located.case.expect_error is not None:
            result.problems.append("an error was expected, and the pipeline ran to its end")
        result.differences = ran.differences

    def play(self, staged: StagedCase, lives: Sequence[Life], marks: Marks | None = None) -> Ran:
        """Run a staged case through these lives; what a life leaves, the next one takes up."""
        folder = Path(tempfile.mkdtemp(prefix="headgate-test-"))
        try:
            return self._play(staged, lives, marks, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _play(
        self, staged: StagedCase, lives: Sequence[Life], marks: Marks | None, folder: Path
    ) -> Ran:
        sinks = {o: CollectedSink(s, folder / "out" / o) for o, s in staged.sinks.items()}
        outcomes: list[Outcome] = []
        settled: dict[int, Epoch] = {}
        points: Counter[str] = Counter()
        seen: Marks = {}
        error: ErrorInfo | None = None
        for life in lives:
            script = Script(
                staged.steps,
                staged.now_ms,
                ends=staged.ends,
                ends_with_rows=staged.ends_with_rows,
                marks=marks,
                after_batch=_barriers(life.barriers),
                settled=settled,
                seen=seen,
            )
            outcome = self._live(staged, life, script, sinks, folder, points)
            outcomes.append(outcome)
            if outcome.cancelled:
                raise Stopped
            if outcome.error is not None or outcome.failures:
                error = outcome.failures[0].error if outcome.failures else None
                if isinstance(outcome.error, CaseFileError):
                    raise outcome.error
                error = error or error_info(outcome.error or RuntimeError("it failed"))
                break
            if not outcome.killed:
                break
        differences = [] if error is not None else _differences(staged, sinks, settled)
        rows = {operator: sink.rows() for operator, sink in sinks.items()}
        return Ran(outcomes, error, rows, differences, seen, points)

    def _live(
        self,
        staged: StagedCase,
        life: Life,
        script: Script,
        sinks: dict[OperatorId, CollectedSink],
        folder: Path,
        points: Counter[str],
    ) -> Outcome:
        rehearsal = Rehearsal(
            self._session(),
            staged.graph,
            folder,
            sources={
                o: ScriptedSource(o, s.shape, s.steps, script) for o, s in staged.sources.items()
            },
            sinks=dict(sinks),
            lookups={o: ScriptedLookup(s, lines) for o, (s, lines) in staged.lookups.items()},
        )
        with self._lock:
            if self._stopped:
                raise Stopped
            self._rehearsal = rehearsal
        try:
            with observed(Passage(points, life.kill_at)):
                return rehearsal.run(
                    parallelism=life.parallelism,
                    rows_per_batch=life.rows_per_batch,
                    conduct=script,
                    now_ms=script.clock,
                )
        finally:
            with self._lock:
                self._rehearsal = None


class Passage:
    """Counts the failpoints that a life passes, and ends it at one of them.

    Every thread that comes by a failpoint afterwards dies there as well: the process is gone.
    """

    def __init__(self, points: Counter[str], kill_at: tuple[str, int] | None) -> None:
        self._points = points
        self._kill_at = kill_at
        self._hits = 0
        self._dead = False
        self._lock = threading.Lock()

    def __call__(self, name: str) -> None:
        with self._lock:
            self._points[name] += 1
            if self._kill_at is not None and name == self._kill_at[0]:
                self._hits += 1
                self._dead = self._dead or self._hits == self._kill_at[1]
            if self._dead:
                raise Killed


def _barriers(after: frozenset[int]) -> Callable[[Checkpoints], None] | None:
    if not after:
        return None
    batches = 0

    def ran(checkpoints: Checkpoints) -> None:
        nonlocal batches
        batches += 1
        if batches in after:
            checkpoints.trigger()

    return ran


def _differences(
    staged: StagedCase, sinks: dict[OperatorId, CollectedSink], settled: dict[int, Epoch]
) -> list[TableDifferences]:
    found = []
    for wanted in staged.wanted:
        up_to = None if wanted.step is None else settled[wanted.step]
        rows = _found_rows(wanted, sinks, up_to)
        _check_columns(wanted, rows)
        expected = wanted.rows
        differences = compare(
            expected.rows, rows, ordered=expected.ordered, tolerance=expected.tolerance
        )
        if differences:
            found.append(TableDifferences(wanted.table, wanted.step, tuple(differences)))
    return found


def _found_rows(
    wanted: Wanted, sinks: dict[OperatorId, CollectedSink], up_to: Epoch | None
) -> list[Row]:
    changes = wanted.rows.updating == "changes"
    return [
        row
        for operator in wanted.sinks
        for row in (sinks[operator].changes(up_to) if changes else sinks[operator].rows(up_to))
    ]


def _check_columns(wanted: Wanted, rows: Sequence[Row]) -> None:
    """Refuse a column that the rows of a bare SELECT do not have: a typing error, most likely."""
    known = list(dict.fromkeys(name for row in rows for name in row))
    if known:
        for row in wanted.rows.rows:
            check_columns(wanted.table, row, known, [OP])


def _judge_error(result: Result, error: ErrorInfo) -> None:
    expected = result.located.case.expect_error
    if expected is None:
        result.problems.append(f"{error.message} (code {error.code})")
        return
    if expected.code is not None and expected.code != error.code:
        result.problems.append(
            f"the error has code '{error.code}', not '{expected.code}': {error.message}"
        )
    if expected.message is not None and expected.message not in error.message:
        result.problems.append(
            f"the error does not say '{expected.message}': {error.message} (code {error.code})"
        )


def same_rows(one: Sequence[Row], other: Sequence[Row]) -> tuple[Difference, ...]:
    """Return how two answers of one pipeline differ; their order may."""
    return tuple(compare(list(one), list(other)))


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {name: plain(v) for name, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value
