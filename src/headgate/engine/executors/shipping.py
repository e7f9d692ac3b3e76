"""The settings of Spark that executors on other hosts need: what runs there, and what it is shown.

`spark.files` and `spark.archives` put files into the working folder of every executor, on every
kind of cluster, before its first task; Python is started in that folder.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from headgate.engine.executors import headgate_daemon
from headgate.engine.executors.facts import own_digest

# Where the executors' Python is: a path, or a name that is looked up there.
PYTHON = "spark.pyspark.python"
FILES = "spark.files"
ARCHIVES = "spark.archives"
PYTHON_PATH = "spark.executorEnv.PYTHONPATH"
DAEMON = "spark.python.daemon.module"

# The folder that an archive of `headgate package` becomes. No module can have this name: the
# working folder is searched for modules, too.
ARCHIVE_FOLDER = "headgate-package"
LIBRARIES = "lib"


def for_executors(conf: Mapping[str, str]) -> dict[str, str]:
    """Return what is to be set beside these settings, on any master that is not local."""
    daemon = str(Path(headgate_daemon.__file__).absolute())
    return {
        FILES: ",".join([*_parts(conf.get(FILES), ","), daemon]),
        DAEMON: Path(daemon).stem,
        f"spark.executorEnv.{headgate_daemon.DIGEST_VARIABLE}": own_digest(),
    }


def for_package(file: Path, conf: Mapping[str, str]) -> dict[str, str]:
    """Return what lets executors use an archive of `headgate package`, beside these settings.

    All that they need themselves is a Python of the driver's version, by its usual name.
    """
    archive, folder = f"{file.absolute()}#{ARCHIVE_FOLDER}", f"./{ARCHIVE_FOLDER}/{LIBRARIES}"
    # A job that is started again may have had another one.
    others = [a for a in _parts(conf.get(ARCHIVES), ",") if not a.endswith(f"#{ARCHIVE_FOLDER}")]
    folders = [f for f in _parts(conf.get(PYTHON_PATH), ":") if f != folder]
    return {
        ARCHIVES: ",".join([*others, archive]),
        PYTHON_PATH: ":".join([folder, *folders]),
        PYTHON: conf.get(PYTHON, f"python{sys.version_info[0]}.{sys.version_info[1]}"),
    }


def _parts(value: str | None, separator: str) -> list[str]:
    return [part for part in (value or "").split(separator) if part]
