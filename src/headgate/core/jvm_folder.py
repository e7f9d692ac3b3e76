"""Where the JVM of a driver has its temporary files and its sockets: they go with its scratch."""

from __future__ import annotations

import hashlib
import os
import tempfile

# The path of a socket has at most 103 characters (107 on Linux); Spark appends 42 of its own.
SOCKET_FOLDER_MAX = 60


def jvm_folder(scratch_dir: str) -> str | None:
    """Return the scratch itself, or, if its path is too long for sockets, one with a short name.

    Whoever removes the scratch removes it, too. None = wherever the JVM likes.
    """
    if not os.path.isabs(scratch_dir):
        return None
    name = f"headgate-{hashlib.sha256(scratch_dir.encode()).hexdigest()[:16]}"
    for folder in (scratch_dir, os.path.join(tempfile.gettempdir(), name)):
        if len(folder) <= SOCKET_FOLDER_MAX:
            return folder
    return None


def elsewhere(scratch_dir: str) -> str | None:
    """Return the folder that goes with the scratch if it is not the scratch itself."""
    folder = jvm_folder(scratch_dir)
    return None if folder == scratch_dir else folder
