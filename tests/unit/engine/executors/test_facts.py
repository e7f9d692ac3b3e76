"""What a process finds around it, also one that has nothing but Python."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headgate
from headgate.core.errors import ExternalError, UserError
from headgate.core.model import from_python
from headgate.engine.executors import facts, headgate_daemon
from headgate.engine.executors.facts import TASK_MODULES, HostFacts, look_around, own_digest
from headgate.engine.executors.reach import Check, packed

HOME = Path(headgate.__file__).parent


def test_the_modules_that_run_on_bare_executors_need_only_the_standard_library() -> None:
    daemon = Path(headgate_daemon.__file__).parent / "headgate_daemon.py"
    code = (
        "import json, sys\n"
        f"sys.path.insert(0, {str(daemon.parent)!r})\n"
        "import headgate_daemon\n"
        "print(json.dumps([headgate_daemon.package_folder(), 'headgate' in sys.modules]))"
    )
    # -I: without the environment; -S: without the site's packages.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [None, False]


def test_what_travels_by_value_answers_where_headgate_is_missing() -> None:
    from pyspark import cloudpickle

    from headgate.engine.executors import cluster  # noqa: F401 - registers what goes by value

    asked = cloudpickle.dumps(facts.look_around)
    code = (
        "import json, pickle, sys\n"
        "look = pickle.loads(bytes.fromhex(sys.stdin.read()))\n"
        "print(json.dumps(look(('json', 'pyarrow'), 'aaaa', b'not read')))"
    )
    pyspark = Path(cloudpickle.__file__).parents[2]
    search = f"import sys; sys.path.append({str(pyspark)!r})\n"
    # Only cloudpickle is needed, which comes with Spark; the rest of the folder is hidden.
    hidden = (
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('headgate', 'pyarrow', 'pydantic'):\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Hide())\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", search + hidden + code],
        input=asked.hex(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = from_python(HostFacts, json.loads(done.stdout))
    assert found.libraries["pyarrow"] is None
    assert found.reach is None


def test_the_digest_is_that_of_the_modules_and_nothing_else(tmp_path: Path) -> None:
    copy = tmp_path / "headgate"
    shutil.copytree(HOME, copy)
    assert headgate_daemon.package_digest(str(copy)) == own_digest()
    (copy / "__pycache__").mkdir(exist_ok=True)
    (copy / "__pycache__" / "x.pyc").write_bytes(b"compiled")
    assert headgate_daemon.package_digest(str(copy)) == own_digest()
    with (copy / "udf.py").open("a") as file:
        file.write("# changed\n")
    assert headgate_daemon.package_digest(str(copy)) != own_digest()


def test_the_driver_finds_itself_complete() -> None:
    found = from_python(HostFacts, look_around(TASK_MODULES, own_digest(), None))
    assert found.digest == own_digest()
    assert not found.broken
    assert None not in found.libraries.values()


def away() -> None:
    raise ExternalError("nobody answers")


def refused() -> None:
    raise UserError("not for you")


def there() -> None:
    pass


def test_checks_are_run_and_their_errors_told() -> None:
    checks = packed([Check("a", there), Check("b", away), Check("c", refused)])
    found = from_python(HostFacts, look_around(("json",), own_digest(), checks))
    assert found.reach is not None
    told = [(each.what, each.error, each.external) for each in found.reach]
    assert told == [
        ("a", None, False),
        ("b", "nobody answers", True),
        ("c", "not for you", False),
    ]


@pytest.mark.parametrize(("modules", "digest"), [(("json",), "aaaa"), (("no_such_module",), None)])
def test_checks_are_not_run_where_they_cannot_be(modules: tuple[str, ...], digest: str) -> None:
    checks = packed([Check("a", there)])
    found = from_python(HostFacts, look_around(modules, digest or own_digest(), checks))
    assert found.reach is None


def test_checks_that_cannot_be_read_are_a_finding() -> None:
    found = from_python(HostFacts, look_around(("json",), own_digest(), pickle.dumps(1)))
    assert found.reach is not None
    assert found.reach[0].error is not None


def test_another_copy_of_headgate_cannot_be_imported() -> None:
    guard = headgate_daemon.OtherCopy()
    with pytest.raises(ModuleNotFoundError, match="not the driver's"):
        guard.find_spec("headgate.core")
    assert guard.find_spec("json") is None
