"""Session windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.core.errors import InternalError
from headgate.core.graph import Operator

if TYPE_CHECKING:
    from headgate.engine.build.frame import Builder, Frame


def build_session_aggregate(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    raise InternalError(f"the engine cannot run operator {operator.id} yet")
