"""Where case files are: named by the user, or found below a folder by their name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from headgate.core.errors import UserError

# One convention: `totals.sql` is tested by `totals_test.yaml`.
ENDINGS = ("_test.yaml", "_test.yml")
_NOT_LOOKED_INTO = ("node_modules", "__pycache__")


def case_files(paths: Iterable[Path]) -> list[Path]:
    """Return the case files at these paths, each once; a folder is searched, a file is one."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            found.update(dict.fromkeys(_below(path)))
        elif path.exists():
            found[path] = None
        else:
            raise UserError(f"there is no file or folder '{path}'", code="case_file")
    return list(found)


def _below(folder: Path) -> list[Path]:
    found = []
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(
            f for f in folders if not f.startswith(".") and f not in _NOT_LOOKED_INTO
        )
        found += [Path(root, name) for name in sorted(files) if name.endswith(ENDINGS)]
    return found
