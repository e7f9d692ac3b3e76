"""The name that was probably meant, for errors about a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Names that differ in more than this are no slip of the keyboard.
_ALIKE = 0.65


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that looks most like `name`, or None if none does."""
    # Upper and lower case are no difference, and of names that differ in them only one is shown.
    by_lower = {candidate.lower(): candidate for candidate in sorted(known, reverse=True)}
    found = difflib.get_close_matches(name.lower(), sorted(by_lower), n=1, cutoff=_ALIKE)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: empty if nothing looks like it."""
    near = closest(name, known)
    return f": did you mean `{near}`?" if near is not None else ""
