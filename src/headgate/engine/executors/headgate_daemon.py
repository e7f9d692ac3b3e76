"""The parent of Spark's Python workers on the executors of a cluster.

Spark puts this one file into the working folder of every executor (`spark.files`) and starts it
there as a module (`spark.python.daemon.module`). So it runs also where Headgate is not installed:
Spark's own daemon does then, and the comparison with the driver can say what is missing.

A copy of Headgate that is not the driver's may not run any task: it would compute something else.
It cannot be imported here.

Imports nothing but the standard library until it is known what there is.
"""

from __future__ import annotations

import hashlib
import os
import sys
from importlib.machinery import PathFinder
from typing import Any

PACKAGE = "headgate"
# What the driver's copy is; in the environment of the executors.
DIGEST_VARIABLE = "HEADGATE_DRIVER_DIGEST"


def package_folder() -> str | None:
    """Return where Headgate is installed here, without importing it; None = nowhere."""
    found = PathFinder.find_spec(PACKAGE)
    if found is None or found.origin is None or not found.submodule_search_locations:
        return None
    return next(iter(found.submodule_search_locations))


def package_digest(folder: str) -> str:
    """Return what tells one copy of the package from another: its modules, by name and text."""
    digest = hashlib.sha256()
    for name in sorted(_modules(folder)):
        with open(os.path.join(folder, *name.split("/")), "rb") as file:
            text = file.read()
        digest.update(f"{name}\n{len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest()[:16]


def _modules(folder: str) -> list[str]:
    found = []
    for place, _, names in os.walk(folder):
        below = os.path.relpath(place, folder).replace(os.sep, "/")
        prefix = "" if below == "." else f"{below}/"
        found += [prefix + name for name in names if name.endswith(".py")]
    return found


class OtherCopy:
    """Keeps a copy of Headgate that is not the driver's from being imported."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name.partition(".")[0] == PACKAGE:
            raise ModuleNotFoundError(
                "the copy of Headgate on this executor is not the driver's: no task may use it",
                name=name,
            )
        return None


def main() -> None:
    folder = package_folder()
    if folder is not None and package_digest(folder) == os.environ.get(DIGEST_VARIABLE):
        try:
            from headgate.engine.jvm.preloaded import serve
        except ImportError as error:
            # A library is missing. The comparison, which needs none, says so to a person.
            print(f"headgate is here, but cannot be used: {error}", file=sys.stderr)
        else:
            serve()
            return
    elif folder is not None:
        sys.meta_path.insert(0, OtherCopy())
    import pyspark.daemon

    pyspark.daemon.manager()


if __name__ == "__main__":
    main()
