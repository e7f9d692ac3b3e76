"""The end of a query: its rows go to whoever asked, at every publish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.connectors.preview.sink import PreviewSink
from headgate.operators import SinkSpec


class RowsSink(PreviewSink):
    """Stages as a preview does, and hands over what is published instead of writing it."""

    def __init__(self, spec: SinkSpec, hand_over: Callable[[tuple[str, ...]], None]) -> None:
        super().__init__(spec)
        self._hand_over = hand_over

    def __reduce__(self) -> tuple[Any, ...]:
        # Tasks stage and never publish: they get a plain one.
        return PreviewSink, (self._spec,)

    def _show(self, data: bytes) -> None:
        # Not `splitlines`: a text may hold characters that end a line elsewhere.
        lines = tuple(data.decode().split("\n")[:-1])
        if lines:
            self._hand_over(lines)
