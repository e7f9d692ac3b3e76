"""The first hour of a stranger, typed into a real terminal: a wheel in an empty environment.

Every command is typed as it stands in the documentation. Nothing of the repository can be seen: the
wheel was built from it, and its libraries were installed as its own metadata asks for them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

ROOT = Path(__file__).parents[2]
PROMPT = "stranger> "
# Machines are shared: this is for one that is busy.
SECONDS = 300.0

pytestmark = pytest.mark.timeout(1_800)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, install it into an environment of its own; return that one's programs."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(build, check=True, cwd=folder)
    (wheel,) = folder.glob("headgate-*.whl")
    environment = folder / "env"
    venv.create(environment, with_pip=True)
    # The versions that are tested, without their hashes: these would have to be said of the wheel.
    pins = re.findall(r"^[\w.-]+==[^\\\n]+", (ROOT / "requirements/dev.txt").read_text(), re.M)
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(pins))
    own = [str(environment / "bin/python"), *pip[1:], "install", "-c", str(constraints)]
    subprocess.run([*own, f"{wheel}[inspect]"], check=True, cwd=folder)
    return environment / "bin"


class Terminal:
    """A shell in a terminal, in an empty home."""

    def __init__(self, programs: Path, home: Path) -> None:
        kept = {name: os.environ[name] for name in ("JAVA_HOME", "LANG") if name in os.environ}
        self.child = pexpect.spawn(
            "/bin/bash",
            ["--norc", "--noprofile"],
            cwd=str(home),
            env={
                **kept,
                "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
                "HOME": str(home),
                "PS1": PROMPT,
                "TERM": "xterm-256color",
                "PROMPT_TOOLKIT_NO_CPR": "1",
            },
            encoding="utf-8",
            timeout=SECONDS,
            dimensions=(50, 160),
        )
        # What the screen showed, for whoever must find out why a test failed.
        self.child.logfile_read = (home / "screen.log").open("w")
        self.child.expect_exact(PROMPT)

    def type(self, line: str, *, code: int | None = 0) -> str:
        """Type a command, wait for its end, and return what it showed."""
        self.child.sendline(line)
        self.child.expect_exact(PROMPT)
        shown = plain(self.child.before or "")
        if code is not None:
            assert self.code() == code, shown
        return shown

    def code(self) -> int:
        self.child.sendline("echo code=$?")
        self.child.expect(r"code=(\d+)\r\n")
        found = int(self.child.match[1])
        self.child.expect_exact(PROMPT)
        return found


def plain(text: str) -> str:
    """Return the text without what moves the cursor or colours it."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "")


@pytest.fixture(scope="module")
def terminal(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    found = Terminal(installed, tmp_path_factory.mktemp("home"))
    yield found
    found.child.close(force=True)


def home(terminal: Terminal) -> Path:
    assert terminal.child.cwd is not None
    return Path(str(terminal.child.cwd)) / "shop"


def test_a_folder_that_runs(terminal: Terminal) -> None:
    assert re.search(r"headgate \d+\.\d+", terminal.type("headgate --version"))
    assert "shell" in terminal.type("headgate --help")
    terminal.type("headgate new shop")
    terminal.type("cd shop")
    assert "window" in terminal.type("headgate plan pipeline.sql")
    terminal.type("headgate run pipeline.sql")
    rows = [json.loads(line) for line in (home(terminal) / "totals.json").read_text().splitlines()]
    orders = (home(terminal) / "orders.json").read_text().splitlines()
    assert len(rows) == 12
    assert sum(row["orders"] for row in rows) == len(orders)


def test_again_it_says_that_it_is_finished(terminal: Terminal) -> None:
    before = (home(terminal) / "totals.json").read_bytes()
    shown = terminal.type("headgate run pipeline.sql")
    assert "finished" in shown
    assert "--fresh" in shown
    assert (home(terminal) / "totals.json").read_bytes() == before


def test_what_is_wrong_is_shown_where_it_is(terminal: Terminal) -> None:
    terminal.type("sed 's/sum(amount)/sum(amout)/' pipeline.sql > wrong.sql")
    shown = terminal.type("headgate plan wrong.sql", code=2)
    assert "^" in shown
    assert re.search("did you mean .?amount", shown)
    terminal.type("sed 's/sum(amount)/upper(shop, 1)/' pipeline.sql > wrong.sql")
    shown = terminal.type("headgate run wrong.sql", code=2)
    assert "upper" in shown
    assert "^" in shown
    assert "Traceback" not in shown
    assert "no such" in terminal.type("headgate run nothing.sql", code=2).lower()


def test_the_tests_of_the_folder_pass(terminal: Terminal) -> None:
    assert re.search(r"[1-9]\d* passed", terminal.type("headgate test"))


def test_killed_in_the_middle_it_goes_on_and_is_exact(terminal: Terminal) -> None:
    """As the ten minutes have it: 200,000 orders, killed the hard way, run again."""
    page = (ROOT / "docs" / "ten-minutes.md").read_text()
    folder = home(terminal).parent / "ten"
    folder.mkdir()
    for name, text in re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', page, re.M | re.S):
        (folder / name).write_text(text)
    terminal.type("cd ../ten && python3 make_orders.py")
    run = "headgate run totals.sql --max-batch-rows 5000 --checkpoint-interval 1s"
    terminal.child.sendline(f"{run} & echo pid=$!")
    terminal.child.expect(r"pid=(\d+)\r\n")
    pid = int(terminal.child.match[1])
    terminal.child.expect("checkpoint [3-9]")
    # Whoever is killed so tells nobody.
    terminal.type(f"kill -KILL {pid}", code=None)
    terminal.type("wait", code=None)
    shown = terminal.type(run)
    assert "resuming from epoch" in shown
    lines = [line for file in (folder / "totals").glob("*.json") for line in file.open()]
    assert len(lines) == len(set(lines)) == 5_001
    assert sum(json.loads(line)["orders"] for line in lines) == 200_000


def test_the_state_can_be_looked_into_kept_and_gone_on_from(terminal: Terminal) -> None:
    assert "ready" in terminal.type("headgate checkpoints")
    assert "orders" in terminal.type("headgate inspect latest")
    terminal.type("headgate doctor")
    assert "bins" in terminal.type("headgate state --tables")
    terminal.type("headgate savepoint kept --state-dir .headgate")
    assert "kept" in terminal.type("headgate savepoints list")
    assert "totals" in terminal.type("headgate jobs --state-dir .headgate")
    shown = terminal.type("headgate plan totals.sql --state-dir .headgate")
    assert "epoch" in shown
    terminal.type("sed \"s/'1 minute'/'2 minutes'/\" totals.sql > changed.sql")
    shown = terminal.type("headgate plan changed.sql --state-dir .headgate --name totals", code=2)
    assert "--allow-drop-state" in shown
    assert "query" in terminal.type('headgate state "DELETE FROM bins"', code=2).lower()


def test_questions_are_answered_at_a_prompt(terminal: Terminal) -> None:
    terminal.type("cd ../shop")
    child = terminal.child
    child.sendline("headgate shell")
    child.expect("headgate>")
    child.sendline("DESCRIBE 'orders.json';")
    child.expect("shop TEXT")
    child.expect("headgate>")
    child.sendline("SELECT shop, amount FROM 'orders.json' WHERE amount > 30;")
    child.expect("Lima")
    child.expect("headgate>")
    child.sendline("SELECT nothing FROM 'orders.json';")
    child.expect(r"\^")
    child.expect("headgate>")
    child.sendeof()
    child.expect_exact(PROMPT)


def test_impossible_places_are_one_line(terminal: Terminal) -> None:
    shown = terminal.type("headgate run pipeline.sql --state-dir /proc/nothing", code=2)
    assert "Traceback" not in shown
    assert len(shown.strip().splitlines()) <= 4, shown


def test_fresh_begins_anew_and_keeps_what_was(terminal: Terminal) -> None:
    terminal.type("rm totals.json .totals.json.headgate.json")
    shown = terminal.type("headgate run pipeline.sql --fresh")
    assert "pipeline.old-" in shown
    assert len((home(terminal) / "totals.json").read_text().splitlines()) == 12
