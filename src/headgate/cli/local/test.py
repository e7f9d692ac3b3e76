"""`headgate test`: the tests that people write for their pipelines."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from headgate.cli.local.pipeline_file import read_pipeline
from headgate.core.errors import UserError

if TYPE_CHECKING:
    from headgate.cases.chaos import ChaosOptions
    from headgate.cases.document import LocatedCase
    from headgate.cases.running import CaseRunner, Result
    from headgate.cli.local.test_screen import TestScreen

EXIT_FAILED = 1
EXIT_INVALID = 2
EXIT_INTERRUPTED = 130


def run_tests(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Case files, or folders with *_test.yaml; default: this folder."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("-k", help="Only cases with this in their name.")
    ] = None,
    chaos: Annotated[
        bool, typer.Option("--chaos", help="Run each case again, killed and resumed.")
    ] = False,
    chaos_runs: Annotated[
        int | None,
        typer.Option(min=1, help="Such runs of each case; default: one per failpoint it passes."),
    ] = None,
    chaos_seed: Annotated[int, typer.Option(min=0, help="The seed of the first such run.")] = 0,
    junit: Annotated[
        Path | None, typer.Option(help="Also write the results as JUnit's XML.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    list_only: Annotated[bool, typer.Option("--list", help="Name the cases, run none.")] = False,
) -> None:
    """Test pipelines: rows given, rows expected; with --chaos, under kills as well.

    Nothing but Spark is needed: every source, lookup table and sink is replaced. docs/testing.md
    describes the files. Exit codes: 0 all passed, 1 some failed, 2 no cases or invalid ones.
    """
    from headgate.cases.document import CaseFileError
    from headgate.cli.local.test_screen import TestScreen

    screen = TestScreen(Console(highlight=False, stderr=as_json))
    started = time.perf_counter()
    try:
        cases = _selected(paths or [Path()], name)
    except (CaseFileError, UserError) as error:
        typer.echo(error.message, err=True)
        raise typer.Exit(EXIT_INVALID) from error
    if list_only:
        screen.listed(cases)
        return
    from headgate.cases.chaos import ChaosOptions

    options = ChaosOptions(chaos_seed, chaos_runs) if chaos else None
    results, interrupted = _run(cases, options, screen)
    screen.summary(results, time.perf_counter() - started, left=len(cases) - len(results))
    _report(results, junit, as_json=as_json)
    if interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    if any(result.invalid for result in results):
        raise typer.Exit(EXIT_INVALID)
    if not all(result.passed for result in results):
        raise typer.Exit(EXIT_FAILED)


def _selected(paths: Sequence[Path], name: str | None) -> list[LocatedCase]:
    """Read every file, and say all that is wrong before anything is run."""
    from headgate.cases.document import CaseFileError, read_cases
    from headgate.cases.finding import ENDINGS, case_files

    files = case_files(paths)
    if not files:
        where = ", ".join(str(path) for path in paths)
        raise CaseFileError(
            f"no case files below {where}: their names end with {ENDINGS[0]} (docs/testing.md)"
        )
    cases, wrong = [], []
    for file in files:
        try:
            cases += read_cases(file)
        except CaseFileError as error:
            wrong.append(error.message)
    if wrong:
        raise CaseFileError("\n".join(wrong))
    chosen = [case for case in cases if name is None or name in case.name]
    if not chosen:
        raise CaseFileError(f"none of {len(cases)} cases has '{name}' in its name: see --list")
    return chosen


def _run(
    cases: Sequence[LocatedCase], chaos: ChaosOptions | None, screen: TestScreen
) -> tuple[list[Result], bool]:
    """Run the cases; return their results, and whether Ctrl-C ended it."""
    # While the JVM starts there is time to import what reads and plans the pipelines.
    from headgate.rehearsal.session import starting_session

    results: list[Result] = []
    with starting_session("headgate test") as session:
        from headgate.cases.running import CaseRunner, SparkUnavailable

        runner = CaseRunner(session.wait, _read)
        work = _Work(runner, cases, chaos, screen, results)
        # In a thread: Ctrl-C is heard here at once, whatever Spark is doing.
        work.start()
        interrupted = False
        while work.is_alive():
            try:
                work.join()
            except KeyboardInterrupt:
                interrupted = True
                runner.stop()
        if isinstance(work.error, SparkUnavailable) and work.error.__cause__ is not None:
            raise work.error.__cause__
        if work.error is not None:
            raise work.error
    return results, interrupted


class _Work(threading.Thread):
    """Runs one case after the other, until there are none or somebody stops the runner."""

    def __init__(
        self,
        runner: CaseRunner,
        cases: Sequence[LocatedCase],
        chaos: ChaosOptions | None,
        screen: TestScreen,
        results: list[Result],
    ) -> None:
        super().__init__(name="cases", daemon=True)
        self.error: Exception | None = None
        self._runner = runner
        self._cases = cases
        self._chaos = chaos
        self._screen = screen
        self._results = results

    def run(self) -> None:
        from headgate.cases.chaos import run_case
        from headgate.cases.running import Stopped

        try:
            for case in self._cases:
                result = run_case(self._runner, case, self._chaos)
                self._results.append(result)
                self._screen.ended(result)
        except Stopped:
            return
        except Exception as error:  # noqa: BLE001 - the thread's boundary: raised by whoever waits
            self.error = error


def _read(file: Path, udfs: Path | None) -> tuple[str, str | None]:
    given = read_pipeline(file, udfs)
    return given.sql, given.udf_source


def _report(results: Sequence[Result], junit: Path | None, *, as_json: bool) -> None:
    from headgate.cases.reports import as_json as to_json
    from headgate.cases.reports import as_junit

    if junit is not None:
        try:
            junit.parent.mkdir(parents=True, exist_ok=True)
            junit.write_text(as_junit(results))
        except OSError as error:
            raise UserError(f"cannot write '{junit}': {error.strerror}", code="junit") from error
    if as_json:
        typer.echo(json.dumps(to_json(results), indent=2, ensure_ascii=False))
