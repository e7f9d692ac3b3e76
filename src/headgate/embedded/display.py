"""What a person sees while a pipeline runs: a line per event, and a status line that moves."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

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
    SavepointNote,
    SkippedNote,
)
from headgate.core.durations import format_duration
from headgate.core.figures import format_bytes, format_watermark
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


def note_text(note: Note) -> str | None:
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
        case SkippedNote():
            return f"checkpoint {note.epoch} set aside: {note.reason}"
        case SavepointNote():
            return f"savepoint {note.name}: " + (note.failure or f"epoch {note.epoch}")
        case ExecutorsNote():
            return note.text()
        case CleanupNote():
            if note.failure is not None:
                return f"cleanup failed: {note.failure}"
            return None


@dataclass
class RunDisplay:
    """Shows announcements as they come. On a terminal the last line is a live status."""

    console: Console
    as_json: bool = False
    state: str = "created"
    epoch: int = 0
    progress: Progress = field(default_factory=Progress)
    rows_per_second: float = 0.0
    _seen: tuple[float, int] = (0.0, 0)
    _live: Live | None = None

    @contextmanager
    def running(self) -> Iterator[RunDisplay]:
        """Show the status line while the block runs."""
        if self.as_json or not self.console.is_terminal:
            yield self
            return
        with Live(
            self._status(), console=self.console, refresh_per_second=4, transient=True
        ) as live:
            self._live = live
            try:
                yield self
            finally:
                self._live = None

    def show(self, announcement: Announcement) -> None:
        """Take over one announcement; called from the controller's threads."""
        if self.as_json:
            body: dict[str, Any] = {"event": type(announcement).__name__, **to_python(announcement)}
            if isinstance(announcement, Noted):
                body["note_kind"] = type(announcement.note).__name__
            self.console.file.write(json.dumps(body) + "\n")
            self.console.file.flush()
            return
        match announcement:
            case StateChanged():
                self.state = announcement.after
                color = _COLORS.get(announcement.after, "cyan")
                self._line(
                    announcement.at_ms,
                    f"[bold {color}]{announcement.after}[/]  {announcement.reason}",
                )
            case Noted():
                if isinstance(announcement.note, CheckpointNote):
                    self.epoch = announcement.note.epoch
                text = note_text(announcement.note)
                if text is not None:
                    self._line(announcement.at_ms, f"[dim]{escape(text)}[/]")
            case ProgressMade():
                self._take(announcement.progress)
        if self._live is not None:
            self._live.update(self._status())

    def _take(self, progress: Progress) -> None:
        now = time.monotonic()
        then, rows = self._seen
        if then and progress.rows_in >= rows:
            self.rows_per_second = (progress.rows_in - rows) / max(now - then, 1e-3)
        self._seen = (now, progress.rows_in)
        self.progress = progress

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
        if progress.waiting_for:
            parts.append((f"  waiting for {progress.waiting_for}", "yellow"))
        if progress.executors is not None:
            parts.append((f"  executors {progress.executors}", ""))
        if progress.lag_rows:
            parts.append((f"  lag {progress.lag_rows:,} rows", "yellow"))
        if progress.rows_late:
            parts.append((f"  late {progress.rows_late:,}", "yellow"))
        return Text.assemble(*parts)
