"""The archive of `headgate package`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pyspark
import pytest

from headgate.components import package_settings
from headgate.core.errors import UserError
from headgate.core.model import to_json
from headgate.engine.executors import archive
from headgate.engine.executors.archive import (
    MANIFEST,
    check_package,
    files_of,
    make_package,
    read_manifest,
    shipped_distributions,
)
from headgate.engine.executors.facts import own_digest
from headgate.engine.executors.shipping import for_executors, for_package


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a package of Headgate and two small libraries."""
    whole = shipped_distributions()
    names = ("headgate", "six", "typing-extensions")
    monkeypatch.setattr(
        archive, "shipped_distributions", lambda include=(): {n: whole[n] for n in names}
    )
    file = tmp_path / "headgate.tar.gz"
    report = make_package(file)
    assert report.bytes == file.stat().st_size
    assert {packed.name for packed in report.libraries} == set(names)
    return file


def test_what_is_in_it_can_be_imported_from_where_it_is_unpacked(
    small: Path, tmp_path: Path
) -> None:
    with tarfile.open(small) as packed:
        packed.extractall(tmp_path / "there", filter="data")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'there' / 'lib')!r})\n"
        "import six, headgate.udf\n"
        "from importlib.metadata import entry_points, version\n"
        "connectors = entry_points(group='headgate.connectors')\n"
        "print(headgate.__file__, version('headgate'), len(connectors))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    place, version, connectors = done.stdout.split()
    assert place.startswith(str(tmp_path / "there"))
    assert version == read_manifest(small).headgate
    assert int(connectors) == 2


def test_the_same_libraries_make_the_same_archive(small: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.tar.gz"
    make_package(again)
    assert again.read_bytes() == small.read_bytes()


def test_it_has_neither_compiled_files_nor_what_lies_outside(small: Path) -> None:
    with tarfile.open(small) as packed:
        names = packed.getnames()
    assert names[0] == MANIFEST
    assert all(name.startswith("lib/") for name in names[1:])
    assert not [name for name in names if name.endswith(".pyc") or ".." in name]


def test_a_package_of_this_headgate_is_taken(small: Path) -> None:
    assert check_package(small).digest == own_digest()


@pytest.mark.parametrize(
    ("field", "value"), [("digest", "0" * 16), ("python", "3.9"), ("platform", "Linux sparc")]
)
def test_a_package_of_another_headgate_or_python_is_refused(
    tmp_path: Path, field: str, value: str
) -> None:
    from dataclasses import replace

    manifest = replace(archive._manifest({}), **{field: value})
    text = tmp_path / MANIFEST
    text.write_bytes(to_json(manifest))
    file = tmp_path / "old.tar.gz"
    with tarfile.open(file, "w:gz") as packed:
        packed.add(text, MANIFEST)
    with pytest.raises(UserError, match="make it again with `headgate package -o") as caught:
        check_package(file)
    assert value in caught.value.message


def test_a_file_that_is_no_package_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.tar.gz"
    with tarfile.open(other, "w:gz") as packed:
        packed.add(__file__, "file.py")
    text = tmp_path / "text"
    text.write_text("hello")
    for file, words in ((other, "no manifest"), (text, "no package"), (tmp_path / "x", "no pack")):
        with pytest.raises(UserError, match=words):
            read_manifest(file)


def test_what_is_shipped_is_all_that_python_workers_import(tmp_path: Path) -> None:
    """In a Python that has nothing else but PySpark, which comes with Spark."""
    for name, found in shipped_distributions().items():
        for path, place in files_of(name, found).items():
            target = tmp_path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(place, target)
            except OSError:
                # Another file system.
                shutil.copyfile(place, target)
    spark = Path(pyspark.__file__).parent / "python" / "lib"
    zips = [str(file) for file in spark.glob("*.zip")]
    code = (
        f"import sys; sys.path[:0] = {[str(tmp_path), *zips]!r}\n"
        "import headgate.engine.jvm.preloaded, headgate.engine.batch.udfs, headgate.storage.s3\n"
        "import headgate.connectors.kafka.sink, headgate.connectors.postgres.lookup\n"
        "import pandas, pyarrow.dataset\n"
        "print(pandas.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))


def test_a_library_that_is_not_installed_is_named() -> None:
    with pytest.raises(UserError, match="'no-such-library': it is not installed"):
        shipped_distributions(["no-such-library"])


def test_a_library_comes_with_what_it_needs() -> None:
    assert {"python-dateutil", "six"} <= shipped_distributions(["python-dateutil"]).keys()


def test_a_package_sets_all_that_spark_needs(small: Path) -> None:
    mine = {"spark.archives": "a.zip#a", "spark.executorEnv.PYTHONPATH": "/mine"}
    settings = package_settings(str(small), mine)
    assert settings["spark.archives"] == f"a.zip#a,{small}#headgate-package"
    assert settings["spark.executorEnv.PYTHONPATH"] == "./headgate-package/lib:/mine"
    assert settings["spark.pyspark.python"] == f"python3.{sys.version_info[1]}"
    # Started again with another one, only that counts.
    again = for_package(Path("/other.tar.gz"), settings)
    assert again["spark.archives"] == "a.zip#a,/other.tar.gz#headgate-package"
    assert again["spark.executorEnv.PYTHONPATH"] == "./headgate-package/lib:/mine"


def test_executors_are_told_which_headgate_the_driver_has() -> None:
    settings = for_executors({"spark.files": "mine.txt"})
    mine, daemon = settings["spark.files"].split(",")
    assert mine == "mine.txt"
    assert Path(daemon).stem == settings["spark.python.daemon.module"]
    assert settings["spark.executorEnv.HEADGATE_DRIVER_DIGEST"] == own_digest()
