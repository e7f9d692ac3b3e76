"""The rows of a bare SELECT: the worker appends them to a file, this follows it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.core.graph import PipelineGraph
from headgate.operators import SinkSpec

POLL_SECONDS = 0.2


def has_preview(graph: PipelineGraph) -> bool:
    """Whether the pipeline shows rows instead of storing them."""
    specs = (sink.spec for sink in graph.sinks())
    return any(isinstance(s, SinkSpec) and s.connector == "preview" for s in specs)


@contextmanager
def followed(
    path: Path, show: Callable[[str], None], on_closed: Callable[[], None]
) -> Iterator[None]:
    """Show every line that is appended to `path` while the block runs, and at its end.

    `on_closed` is called once if nobody reads what is shown any more.
    """
    over = threading.Event()
    thread = threading.Thread(target=_follow, args=(path, show, on_closed, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _follow(
    path: Path,
    show: Callable[[str], None],
    on_closed: Callable[[], None],
    over: threading.Event,
) -> None:
    shown = 0
    while True:
        # Asked before reading, so that what was appended until the end is still read.
        last = over.wait(POLL_SECONDS)
        if path.exists():
            with path.open("rb") as file:
                file.seek(shown)
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            shown += len(whole)
            try:
                # Not `splitlines`: a text may hold characters that end a line elsewhere.
                for line in whole.decode(errors="replace").split("\n")[:-1]:
                    show(line)
            except BrokenPipeError:
                on_closed()
                return
        if last:
            return
