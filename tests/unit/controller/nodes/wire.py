"""A connection that keeps what is put into it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Wire:
    """An outlet that keeps what is put into it, and whether it is closed."""

    frames: list[bytes | str] = field(default_factory=list)
    closed: bool = False

    def put(self, frame: bytes | str) -> None:
        self.frames.append(frame)

    def close(self) -> None:
        self.closed = True

    def welcome(self) -> dict[str, Any]:
        assert isinstance(self.frames[0], str)
        found: dict[str, Any] = json.loads(self.frames[0])
        return found
