"""How long a person waits for the first row: `headgate run` from nothing, and the warm shell.

    python -m bench.first_row --rounds 3

The same query over the same file of 10,000 rows: from the start of `headgate run` to its first row
on standard output; from the start of `headgate shell` to its prompt, and to the first row of a
query that is asked at once; and from Enter at the warm prompt to the first row, over the file and
over a stream. Real commands, the shell in a terminal of its own. Medians, with the load of the
machine beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import pexpect

from bench import machine

ROWS = 10_000
SECONDS_MAX = 300.0
HEADGATE = (sys.executable, "-m", "headgate")
PROMPT = "headgate>"
MARK = "shown_by_the_query"

FILE_QUERY = f"SELECT id, '{MARK}' AS mark FROM orders WHERE amount >= 0"
STREAM_QUERY = f"SELECT counter, '{MARK}' AS mark FROM clicks"
DECLARED = (
    "CREATE TABLE orders (id BIGINT, amount DOUBLE) WITH (connector = 'single_file', "
    "type = 'source', path = 'orders.json', format = 'json')",
    "CREATE TABLE clicks WITH (connector = 'impulse', event_rate = 1000)",
)
# A row: of a table its mark in a cell, of JSON as a value. The statement has it in quotes.
ROW = rf"(?m)(\d +{MARK}|\"{MARK}\")"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.first_row", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured")
    rounds = parser.parse_args().rounds
    before = machine.load_average()
    took: defaultdict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="headgate-first-row-") as folder:
        place = Path(folder)
        _write(place)
        for number in range(1, rounds + 1):
            print(f"round {number} of {rounds}, load {machine.load_average():.1f}", flush=True)
            took["headgate run: start to first row"].append(_cold(place, number))
            for name, seconds in _shell(place):
                took[name].append(seconds)
    print(f"\nload average {before:.1f} before, {machine.load_average():.1f} after\n")
    for name, values in took.items():
        each = " ".join(f"{value:.1f}" for value in values)
        print(f"{name:<50} {statistics.median(values):6.2f} s   ({each})")
    return 0


def _write(place: Path) -> None:
    with (place / "orders.json").open("w") as file:
        for number in range(ROWS):
            file.write(json.dumps({"id": number, "amount": number / 4}) + "\n")
    (place / "first.sql").write_text(f"{DECLARED[0]};\n{FILE_QUERY};\n")


def _cold(place: Path, number: int) -> float:
    state = str(place / f"state-{number}")
    started = time.perf_counter()
    process = subprocess.Popen(
        [*HEADGATE, "run", "first.sql", "--state-dir", state],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if MARK in line:
                return time.perf_counter() - started
        raise SystemExit(f"headgate run showed no row and ended with {process.wait()}")
    finally:
        process.stdout.close()
        process.terminate()
        process.wait()


def _shell(place: Path) -> list[tuple[str, float]]:
    started = time.perf_counter()
    child = pexpect.spawn(
        HEADGATE[0],
        [*HEADGATE[1:], "shell"],
        cwd=str(place),
        env=os.environ
        | {"PROMPT_TOOLKIT_NO_CPR": "1", "HEADGATE_SHELL_HISTORY": str(place / "history")},
        encoding="utf-8",
        timeout=SECONDS_MAX,
        dimensions=(40, 160),
    )
    try:
        child.expect(PROMPT)
        found = [("headgate shell: start to prompt", time.perf_counter() - started)]
        for text in DECLARED:
            child.sendline(f"{text};")
            child.expect(" declared")
            child.expect(PROMPT)
        _first_row(child, FILE_QUERY)
        found.append(("headgate shell: start to first row", time.perf_counter() - started))
        for name, query in (
            ("shell, a file: Enter to first row", FILE_QUERY),
            ("shell, a stream: Enter to first row", STREAM_QUERY),
        ):
            found.append((name, _first_row(child, query)))
        child.sendeof()
        child.expect(pexpect.EOF)
        return found
    finally:
        child.close(force=True)


def _first_row(child: pexpect.spawn, query: str) -> float:
    child.send(f"{query} LIMIT 20;")
    entered = time.perf_counter()
    child.send("\r")
    child.expect(ROW)
    took = time.perf_counter() - entered
    child.expect("rows in")
    child.expect(PROMPT)
    return took


if __name__ == "__main__":
    sys.exit(main())
