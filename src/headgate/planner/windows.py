"""The time windows: `tumble(width)`, `hop(slide, width)`, `session(gap)`."""

from __future__ import annotations

from sqlglot import exp

from headgate.core.durations import format_us
from headgate.core.graph import Hop, Session, Tumble, Window
from headgate.planner.errors import error_at
from headgate.planner.functions import TIME_WINDOWS, function_name
from headgate.planner.intervals import interval_us


def is_time_window(node: exp.Expr) -> bool:
    return function_name(node) in TIME_WINDOWS


def time_window(call: exp.Expr) -> Window:
    """Return the window that the call means, or raise for one that cannot be."""
    name = function_name(call)
    arguments = call.expressions
    wanted = 2 if name == "hop" else 1
    if len(arguments) != wanted:
        form = {"tumble": "tumble(width)", "hop": "hop(slide, width)", "session": "session(gap)"}
        raise error_at(call, f"wrong number of arguments for {name}(): write {form[name]}")
    lengths = [interval_us(argument) for argument in arguments]
    for argument, length in zip(arguments, lengths, strict=True):
        if length <= 0:
            raise error_at(argument, f"the interval of {name}() must be greater than zero")
    if name == "session":
        return Session(gap_us=lengths[0])
    if name == "tumble":
        return Tumble(width_us=lengths[0])
    slide, width = lengths
    if width % slide != 0:
        raise error_at(
            call,
            f"hop() width {format_us(width)} currently must be a multiple of "
            f"slide {format_us(slide)}",
        )
    return Tumble(width_us=width) if slide == width else Hop(slide_us=slide, width_us=width)


def window_width_us(window: Window) -> int | None:
    """Return the fixed width of a window; None for sessions."""
    return None if isinstance(window, Session) else window.width_us
