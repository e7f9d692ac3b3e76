"""What somebody may have meant who named what there is not."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_CLOSE_ENOUGH = 0.6


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like the given one; None if none is like it."""
    by_folded = {candidate.lower(): candidate for candidate in known}
    found = get_close_matches(name.lower(), list(by_folded), n=1, cutoff=_CLOSE_ENOUGH)
    return by_folded[found[0]] if found else None
