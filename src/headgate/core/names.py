"""Names that people give to jobs and savepoints. They become parts of paths."""

from __future__ import annotations

import re

from headgate.core.errors import UserError

# Folders of Headgate's own begin so, beside those of jobs (`_spares`).
RESERVED = "_"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127}")


def check_name(name: str, *, what: str) -> str:
    """Return `name` if it can be one part of a path; raise `UserError` otherwise."""
    if not _NAME.fullmatch(name):
        raise UserError(
            f"'{name}' cannot be the name of a {what}: use letters, digits, '_', '-' and '.', "
            "at most 128 of them, not starting with '-' or '.'",
            code="name",
        )
    return name


def refuse_reserved(name: str, *, what: str) -> str:
    """Return `name` if a person may give it; raise `UserError` if it is kept for Headgate."""
    if name.startswith(RESERVED):
        raise UserError(
            f"'{name}' cannot be the name of a {what}: names that begin with '{RESERVED}' are"
            " reserved for Headgate's own, choose another one",
            code="name_reserved",
        )
    return name
