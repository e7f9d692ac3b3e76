"""What is installed on a host: folders of this machine that it sees, read-only.

`/usr` and `/etc` every host has. The rest is a mapping from where a host sees a folder to where it
is here, so that a host may lack something, or have another thing in its place:

    network.host("bare", software=java() | interpreter())            # no Headgate, no libraries
    network.host("old", software=java() | {Path(sys.prefix): old_environment} | interpreter())
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark

import headgate
import tests

Software = Mapping[Path, Path]


def everything() -> dict[Path, Path]:
    """Return what a host needs to run Headgate, Spark and the test servers."""
    return java() | interpreter() | environment() | source()


def java() -> dict[Path, Path]:
    """Return Java, wherever it is; below `/usr` it is there anyway."""
    home = os.environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else shutil.which("java")
    if program is None:
        raise RuntimeError("no Java is installed here: run `make java`")
    return _as_it_is(Path(program).resolve().parents[1])


def java_home() -> str:
    return str(next(iter(java())))


def interpreter() -> dict[Path, Path]:
    """Return the Python that this process runs on, without what was installed into its venv."""
    return _as_it_is(Path(sys.base_prefix).resolve())


def environment() -> dict[Path, Path]:
    """Return the virtual environment of this process: PySpark, PyArrow and all the others."""
    return _as_it_is(Path(sys.prefix))


def spark() -> dict[Path, Path]:
    """Return Spark alone: its jars and scripts, which lie in the package of PySpark."""
    return _as_it_is(spark_home())


def spark_home() -> Path:
    return Path(pyspark.__file__).parent


def source() -> dict[Path, Path]:
    """Return Headgate's source tree and the tests."""
    return {folder: folder for folder in source_path()}


def source_path() -> tuple[Path, ...]:
    """Return where `headgate` and `tests` are imported from, as a host sees them."""
    packages = (Path(str(headgate.__file__)).parent, Path(str(tests.__file__)).parent)
    return tuple(package.resolve() for package in packages)


def _as_it_is(folder: Path) -> dict[Path, Path]:
    return {folder: folder}
