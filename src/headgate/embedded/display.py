"""What a person sees while a pipeline runs: a line per event, and a status line that moves."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TextIO

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from headgate.controller.announcements import Announcement, Noted, ProgressMade, StateChanged
from headgate.controller.rules.notes import (
    AbortNote,
    CheckpointNote,
    CleanupNote,
    ExecutorsNote,
    Note,
    PhaseNote,
    ResumedNote,
    SavepointNote,
    SkippedNote,
    WaitNote,
)
from headgate.core.checkpoint import RowTotals
from headgate.core.durations import format_duration
from headgate.core.figures import format_bytes, format_watermark
from headgate.core.ids import NO_EPOCH
from headgate.core.messages import Progress
from headgate.core.model import to_python

_COLORS = {
    "running": "green",
    "finished": "green",
    "stopped": "green",
    "recovering": "yellow",
    "failing": "red",
    "failed": "red",
}


def _resumed_text(note: ResumedNote, at_ms: int) -> str:
    if note.created_ms is None:
        age = ""
    else:
        age = f" ({format_duration(max(0, at_ms - note.created_ms))} old)"
    text = f"resuming from epoch {note.epoch}{age}, watermark {format_watermark(note.watermark)}"
    if note.totals is None:
        return text
    return f"{text}, so far {note.totals.rows_in:,} rows in, {note.totals.rows_out:,} out"


def note_text(note: Note | WaitNote, at_ms: int = 0) -> str | None:
    """Describe what happened in one line; None if a person need not see it."""
    match note:
        case CheckpointNote():
            return (
                f"checkpoint {note.epoch} committed in {format_duration(note.committed_ms)}: "
                f"{format_bytes(note.new_bytes)} in {note.new_objects} files, "
                f"{note.rows_staged:,} rows published"
            )
        case PhaseNote():
            detail = ", ".join(
                f"{name.removesuffix('_ms')} {format_duration(ms)}"
                for name, ms in note.detail.items()
                if ms >= 1
            )
            named = note.phase.replace("_", " ")
            return f"recovery phase: {named} took {format_duration(note.duration_ms)}" + (
                f" ({detail})" if detail else ""
            )
        case AbortNote():
            return f"checkpoint {note.epoch} aborted, trying again: {note.reason}"
        case ResumedNote():
            return _resumed_text(note, at_ms)
        case SkippedNote():
            return f"checkpoint {note.epoch} set aside: {note.reason}"
        case SavepointNote():
            return f"savepoint {note.name}: " + (note.failure or f"epoch {note.epoch}")
        case ExecutorsNote():
            return note.text()
        case WaitNote():
            return note.waiting_for or None
        case CleanupNote():
            if note.failure is not None:
                return f"cleanup failed: {note.failure}"
            return None


# Said in other words: what a person sees of a start is what it waits for.
_QUIET = ("created", "compiling", "restarting")
# Why a job failed is said once, at its end, with what to do about it.
_WITHOUT_REASON = ("failing", "failed")
# From here on the time is shown that something has taken.
_LONG_SECONDS = 1.0
# Micro-batches take a while; of one that takes longer a person is told.
_LONG_BATCH_SECONDS = 5.0
# Totals never go back while somebody looks: after a failure, rows are read again.
_TOTALS = ("rows_in", "rows_out", "rows_late", "rows_bad")

AGAIN = "Ctrl-C again stops at once"


@dataclass
class RunDisplay:
    """Shows announcements as they come. On a terminal the last line is a live status.

    Events go to `console`, which is standard error; rows of a bare SELECT go to `rows`, and nothing
    else does.
    """

    console: Console
    as_json: bool = False
    rows: TextIO = field(default_factory=lambda: sys.stdout)
    state: str = "created"
    epoch: int = 0
    progress: Progress = field(default_factory=Progress)
    rows_per_second: float = 0.0
    # What the job is doing within its state, as of now.
    doing: Callable[[], str] = lambda: ""
    _stopping: str = ""
    _entered: float = field(default_factory=time.monotonic)
    # What it waits for outside of Headgate, like space on a disk.
    waiting_for: str = ""
    _seen: tuple[float, int] = (0.0, 0)
    # When the worker last said how far it is.
    _heard: float = 0.0
    _live: Live | None = None

    @contextmanager
    def running(self) -> Iterator[RunDisplay]:
        """Show the status line while the block runs."""
        if self.as_json or not self.console.is_terminal:
            yield self
            return
        with Live(
            get_renderable=self._status,
            console=self.console,
            refresh_per_second=4,
            transient=True,
            # Rows go where a person sends standard output, and not into the status line.
            redirect_stdout=False,
        ) as live:
            self._live = live
            try:
                yield self
            finally:
                self._live = None

    def show(self, announcement: Announcement) -> None:
        """Take over one announcement; called from the controller's threads."""
        self._follow(announcement)
        if self.as_json:
            body: dict[str, Any] = {"event": type(announcement).__name__, **to_python(announcement)}
            if isinstance(announcement, Noted):
                body["note_kind"] = type(announcement.note).__name__
            self.say_json(body)
            return
        match announcement:
            case StateChanged(after=after, reason=reason) if after not in _QUIET:
                said = self.doing() if after in ("scheduling", "recovering") else reason
                said = "" if after in _WITHOUT_REASON else said
                color = _COLORS.get(after, "cyan")
                self._line(announcement.at_ms, f"[bold {color}]{after}[/]  {escape(said)}")
            case Noted(note=note):
                if isinstance(note, WaitNote):
                    self.waiting_for = note.waiting_for
                text = note_text(note, announcement.at_ms)
                if text is not None:
                    self._line(announcement.at_ms, f"[dim]{escape(text)}[/]")
        if self._live is not None:
            self._live.refresh()

    def row(self, line: str) -> None:
        """Show a row of a bare SELECT. Raises `BrokenPipeError` if nobody reads them any more."""
        if self._live is not None and self.rows.isatty():
            # Both are the same terminal: the row goes above the status line.
            self.console.print(line, markup=False, highlight=False, soft_wrap=True)
            return
        self.rows.write(line + "\n")
        self.rows.flush()

    def say(self, markup: str) -> None:
        """Show one more line."""
        if not self.as_json:
            self.console.print(markup, highlight=False, soft_wrap=True)

    def tell(self, event: str, text: str) -> None:
        """Show one more line, as an event of its own with JSON."""
        if self.as_json:
            self.say_json({"event": event.capitalize(), "text": text})
        else:
            self.say(escape(text))

    def take_totals(self, totals: RowTotals | None) -> None:
        """Show these counts: nothing runs that would report any."""
        if totals is not None:
            self._resume(ResumedNote(epoch=NO_EPOCH, totals=totals))

    def say_json(self, body: dict[str, Any]) -> None:
        """Write one event as a line of JSON."""
        self.console.file.write(json.dumps(body) + "\n")
        self.console.file.flush()

    def stopping(self, *, at_once: bool = False) -> None:
        """A person has asked for the end."""
        self._stopping = "stopping at once" if at_once else f"stopping; {AGAIN}"
        if self._live is None:
            self.say(escape(self._stopping))

    def closing(self) -> None:
        """The job is at its end, and the process is not yet."""
        self.say(
            "waiting for the last writes to the state store, and for the worker to be gone; "
            "Ctrl-C ends at once"
        )

    def abandon(self) -> None:
        """The process ends without waiting for anything: leave the terminal as it was."""
        if self._live is not None:
            # Not through the console: whoever has its lock may be what is not waited for.
            os.write(self.console.file.fileno(), b"\r\x1b[2K\x1b[?25h")

    def totals(self) -> str:
        """Say what has become of all rows."""
        progress = self.progress
        parts = [f"{progress.rows_in:,} rows in", f"{progress.rows_out:,} out"]
        if progress.rows_late:
            parts.append(f"{progress.rows_late:,} late")
        if progress.rows_bad:
            parts.append(f"{progress.rows_bad:,} dropped")
        return ", ".join(parts)

    def _follow(self, announcement: Announcement) -> None:
        match announcement:
            case StateChanged():
                self.state, self._entered = announcement.after, time.monotonic()
            case Noted(note=CheckpointNote(epoch=epoch)):
                self.epoch = epoch
            case Noted(note=ResumedNote() as resumed):
                self._resume(resumed)
            case ProgressMade():
                self._take(announcement.progress)

    def _resume(self, note: ResumedNote) -> None:
        self.epoch = max(self.epoch, note.epoch)
        counts = note.totals or RowTotals()
        self._take(
            replace(
                self.progress,
                batch_running_ms=0.0,
                watermark=note.watermark,
                rows_in=counts.rows_in,
                rows_out=counts.rows_out,
                rows_late=counts.rows_late,
                rows_bad=counts.rows_bad,
            )
        )

    def _take(self, progress: Progress) -> None:
        self._heard = now = time.monotonic()
        then, rows = self._seen
        if then and progress.rows_in >= rows:
            self.rows_per_second = (progress.rows_in - rows) / max(now - then, 1e-3)
        self._seen = (now, progress.rows_in)
        most = {
            name: max(getattr(progress, name), getattr(self.progress, name)) for name in _TOTALS
        }
        self.progress = replace(progress, **most)

    def _line(self, at_ms: int, markup: str) -> None:
        moment = datetime.fromtimestamp(at_ms / 1000).strftime("%H:%M:%S.%f")[:-3]
        self.console.print(f"[dim]{moment}[/]  {markup}", highlight=False, soft_wrap=True)

    def _status(self) -> Text:
        progress = self.progress
        parts = [
            (f" {self.state} ", f"reverse {_COLORS.get(self.state, 'cyan')}"),
            (f"  epoch {self.epoch}", "bold"),
            (f"  {self.rows_per_second:,.0f} rows/s", ""),
            (f"  in {progress.rows_in:,}  out {progress.rows_out:,}", ""),
            (f"  watermark {format_watermark(progress.watermark)}", ""),
        ]
        if progress.executors is not None:
            parts.append((f"  executors {progress.executors}", ""))
        if progress.lag_rows:
            parts.append((f"  lag {progress.lag_rows:,} rows", "yellow"))
        if progress.rows_late:
            parts.append((f"  late {progress.rows_late:,}", "yellow"))
        if progress.rows_bad:
            parts.append((f"  dropped {progress.rows_bad:,}", "yellow"))
        waits = self._waits_for()
        if waits:
            parts.append((f"  {waits}", "yellow"))
        return Text.assemble(*parts)

    def _long_batch(self) -> str:
        """Say for how long the micro-batch has run, if that is unusually long."""
        running_ms = self.progress.batch_running_ms
        if not running_ms:
            return ""
        seconds = running_ms / 1000 + time.monotonic() - self._heard
        if seconds < _LONG_BATCH_SECONDS:
            return ""
        return f"batch running for {format_duration(int(seconds) * 1000)}"

    def _waits_for(self) -> str:
        """Say what is being waited for, and for how long already."""
        seconds = time.monotonic() - self._entered
        if self._stopping:
            what = self._long_batch() or self.doing()
            return self._stopping.replace("stopping", f"stopping: {what}" if what else "stopping")
        if self.waiting_for:
            return self.waiting_for
        if self.state == "running":
            waiting = self.progress.waiting_for
            return f"waiting for {waiting}" if waiting else self._long_batch()
        said = self.doing()
        if self.state == "recovering" or not said or seconds < _LONG_SECONDS:
            return said
        return f"{said} ({seconds:.0f} s)"
