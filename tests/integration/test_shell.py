"""`headgate shell` as a person meets it: the real command in a terminal, with `-c`, in a pipe."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pexpect
import psutil
import pytest

from tests.support.processes import marked
from tests.support.waiting import eventually

MARK = "SHELL_UNDER_TEST"
PROMPT = "headgate>"
SECONDS = 240.0
COMMAND = [sys.executable, "-m", "headgate", "shell"]


class Terminal:
    """A terminal in which the shell runs."""

    def __init__(self, folder: Path) -> None:
        environment = os.environ | {
            "HEADGATE_SHELL_HISTORY": str(folder / "history"),
            # Nobody answers here where the cursor is.
            "PROMPT_TOOLKIT_NO_CPR": "1",
        }
        self.child = pexpect.spawn(
            COMMAND[0],
            COMMAND[1:],
            cwd=str(folder),
            env=environment,
            encoding="utf-8",
            timeout=SECONDS,
            dimensions=(40, 160),
        )
        # The screen as it was written, for whoever must find out why a test failed.
        self.child.logfile_read = (folder / "screen.log").open("w")
        self.child.expect(PROMPT)

    def ask(self, text: str, *answers: str) -> None:
        """Type a statement and wait for its answers, in their order, and for the prompt."""
        self.child.sendline(text)
        for answer in answers:
            self.child.expect(answer)
        self.child.expect(PROMPT)

    def worker(self) -> psutil.Process:
        """Return the process that runs the queries."""
        assert self.child.pid is not None
        for process in psutil.Process(self.child.pid).children():
            if "headgate.warm" in process.cmdline():
                return process
        raise AssertionError("the shell has no worker")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    write_orders(tmp_path / "orders.json", range(3))
    terminal = Terminal(tmp_path)
    try:
        yield terminal
    finally:
        terminal.child.close(force=True)


def write_orders(path: Path, numbers: range) -> None:
    rows = [{"id": n, "shop": "ab"[n % 2], "at": f"2024-01-01T00:00:0{n % 10}Z"} for n in numbers]
    # It appears as a whole: a folder that is read as a stream may be listed at any moment.
    part = path.with_name(f".{path.name}")
    part.write_text("".join(json.dumps(row) + "\n" for row in rows))
    part.rename(path)


def test_a_session_at_the_terminal(terminal: Terminal, tmp_path: Path) -> None:
    # What needs no Spark is answered while it starts; a statement may have several lines.
    terminal.ask("DESCRIBE 'orders.json';", "id BIGINT", "shop TEXT", "at TIMESTAMP")
    terminal.child.sendline("SELECT foo")
    terminal.child.expect(r"\.\.\.")
    terminal.ask("FROM 'orders.json';", "column 'foo' not found", "line 1, column 8", r"\^")
    terminal.ask("SELECT id, shop FROM 'orders.json';", "id  shop", "2  a", "3 rows in")

    # A folder that grows; Ctrl-C ends the query and nothing else.
    stream = tmp_path / "stream"
    stream.mkdir()
    write_orders(stream / "a.json", range(2))
    terminal.ask(
        "CREATE TABLE orders (id BIGINT, shop TEXT) WITH (connector = 'filesystem', "
        "type = 'source', path = 'stream', format = 'json');",
        "orders declared",
    )
    terminal.child.sendline("SELECT id + 100 AS number FROM orders;")
    terminal.child.expect("101")
    write_orders(stream / "b.json", range(7, 9))
    terminal.child.expect("108")
    terminal.child.sendintr()
    terminal.child.expect("4 rows until Ctrl-C")
    terminal.child.expect(PROMPT)
    terminal.ask("SHOW TABLES;", "orders +source +filesystem")

    # Changes say what happened, and LIMIT ends a query over a stream.
    terminal.ask(
        "SELECT shop, count(*) AS n FROM orders GROUP BY shop LIMIT 2;",
        "op  shop",
        r"\+   ",
        "2 rows in",
    )

    # A worker that is killed takes its query along, and not the shell.
    old = terminal.worker()
    terminal.child.sendline("SELECT id FROM orders;")
    terminal.child.expect("─")
    old.send_signal(signal.SIGKILL)
    terminal.child.expect("was killed by signal 9")
    terminal.child.expect(PROMPT)
    terminal.ask("SELECT count(*) AS n FROM 'orders.json';", "3", "1 row in")
    new = terminal.worker()
    assert new.pid != old.pid

    # What was declared goes into a file that can be planned.
    terminal.ask("CREATE TABLE out WITH (connector = 'blackhole');", "out declared")
    terminal.ask("INSERT INTO out SELECT id FROM orders;", "kept, but not run")
    terminal.ask(r"\save pipeline.sql", "headgate run pipeline.sql")
    planned = subprocess.run(
        [sys.executable, "-m", "headgate", "plan", "pipeline.sql"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "write out (blackhole)" in planned.stdout

    terminal.child.sendeof()
    terminal.child.expect(pexpect.EOF)
    terminal.child.wait()
    assert terminal.child.exitstatus == 0
    _wait_until_gone(new)
    assert "SELECT id FROM orders;" in (tmp_path / "history").read_text()


def _wait_until_gone(process: psutil.Process) -> None:
    _, alive = psutil.wait_procs([process], timeout=SECONDS)
    assert not alive


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of temporary files with a short name, and a mark on all that is started."""
    with TemporaryDirectory(prefix="s-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setenv(MARK, folder)
        yield Path(folder)


def nothing_is_left(temporary: Path) -> bool:
    """Whether every process that came of it ends, and no file stays."""
    return eventually(lambda: not marked(f"{MARK}={temporary}") and not any(temporary.iterdir()))


def test_one_command_and_a_pipe(tmp_path: Path, temporary: Path) -> None:
    write_orders(tmp_path / "orders.json", range(3))
    (tmp_path / "twice.py").write_text(
        "from headgate.udf import udf\n\n\n@udf\ndef twice(n: int) -> int:\n    return n * 2\n"
    )
    refused = shell(tmp_path, "-c", "SELECT foo FROM 'orders.json'")
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert "--> line 1, column 8" in refused.stderr
    # Spark was still starting.
    assert nothing_is_left(temporary)

    text = """
        CREATE TABLE i WITH (connector = 'impulse', event_rate = 1000);
        SELECT twice(counter) AS n FROM i LIMIT 2;
        SELECT shop, count(*) AS n FROM 'orders.json' GROUP BY shop;
        SELECT CAST(shop AS BIGINT) AS number FROM 'orders.json';
        SELECT 1 AS not_reached FROM i LIMIT 1;
    """
    piped = shell(tmp_path, "--json", "--udfs", "twice.py", given=text)
    rows = [json.loads(line) for line in piped.stdout.splitlines()]
    assert rows[:2] == [{"n": 0}, {"n": 2}]
    assert sorted((r["after"]["shop"], r["after"]["n"]) for r in rows[2:]) == [("a", 2), ("b", 1)]
    assert "2 rows in" in piped.stderr
    # A value that is no number is an error of the query, which ends the text.
    assert "error" in piped.stderr
    assert piped.returncode == 1
    assert nothing_is_left(temporary)


def test_every_row_is_shown_once_and_in_the_order_of_its_source(tmp_path: Path) -> None:
    rows = [{"id": n, "text": f"{n}\u2028\x85"} for n in range(5000)]
    (tmp_path / "rows.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    # At a rate there are many micro-batches; each has rows in every subtask.
    text = """
        CREATE TABLE i WITH (connector = 'impulse', event_rate = 1000, message_count = 1500);
        CREATE TABLE endless WITH (connector = 'impulse', event_rate = 1000);
        SELECT counter AS i FROM i;
        SELECT counter AS endless FROM endless WHERE counter % 2 = 0 LIMIT 400;
        SELECT counter AS few FROM endless LIMIT 5;
        SELECT id, text FROM 'rows.json';
        SELECT id AS first_id FROM 'rows.json' LIMIT 7;
        SELECT counter AS two FROM i WHERE counter < 2
            UNION ALL SELECT counter + 10 AS two FROM i WHERE counter < 2;
    """
    done = shell(tmp_path, "--json", "--parallelism", "3", given=text)
    assert done.returncode == 0, done.stderr
    shown: dict[str, list[int]] = {}
    for line in done.stdout.split("\n")[:-1]:
        row = json.loads(line)
        shown.setdefault(next(iter(row)), []).append(next(iter(row.values())))
        if "text" in row:
            assert row == rows[row["id"]]
    assert sorted(shown.pop("two")) == [0, 1, 10, 11]
    assert shown == {
        "i": list(range(1500)),
        "endless": list(range(0, 800, 2)),
        "few": list(range(5)),
        "id": list(range(5000)),
        "first_id": list(range(7)),
    }


def test_ctrl_c_ends_the_one_command(tmp_path: Path) -> None:
    query = "CREATE TABLE i WITH (connector = 'impulse', event_rate = 10); SELECT counter FROM i"
    process = subprocess.Popen(
        [*COMMAND, "-c", query],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    header = process.stdout.readline()
    assert header == "counter\n"
    (worker,) = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert "until Ctrl-C" in said
    _wait_until_gone(worker)


def shell(
    folder: Path, *arguments: str, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
