"""The picture of a run in the README: real commands, killed in the middle, as an SVG.

    python -m manual.picture        # writes docs/run.svg

It shows what the commands said, with some of the many lines of checkpoints left out.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

DOCS = Path(__file__).parents[1] / "docs"
RUN = [
    *(sys.executable, "-m", "headgate", "run", "totals.sql"),
    *("--max-batch-rows", "20000", "--checkpoint-interval", "1s"),
]
WIDTH = 110
_STATES = re.compile(r"\b(running|finished|recovering|failed|finishing|scheduling)\b")
# The SVG that Rich makes names fonts on the internet; any fixed-width one will do.
_FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="headgate-picture-") as name:
        folder = Path(name)
        page = (DOCS / "ten-minutes.md").read_text()
        for file, text in re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', page, re.M | re.S):
            (folder / file).write_text(text)
        subprocess.run([sys.executable, "make_orders.py"], cwd=folder, check=True)
        killed = list(run(folder, kill_after=3))
        whole = list(run(folder))
        command = "$ headgate run totals.sql --checkpoint-interval 1s"
        counted = "$ cat totals/*.json | sort | uniq -d | wc -l"
        rows = [line for path in (folder / "totals").glob("*.json") for line in path.open()]
        twice = len(rows) - len(set(rows))
        lines = [command, *shortened(killed), "$ # killed with kill -9; once more:"]
        lines += [command, *shortened(whole), counted, str(twice)]
        (DOCS / "run.svg").write_text(drawn(lines))


def run(folder: Path, *, kill_after: int | None = None) -> Iterator[str]:
    """Run the pipeline and return what it says; killed after so many checkpoints."""
    process = subprocess.Popen(
        RUN,
        cwd=folder,
        env=os.environ | {"COLUMNS": str(WIDTH)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    checkpoints = 0
    for line in process.stderr:
        yield line.rstrip()
        checkpoints += " committed in " in line
        if checkpoints == kill_after:
            process.send_signal(signal.SIGKILL)
            break
    process.wait()


def shortened(lines: list[str]) -> list[str]:
    """Leave out all but the first and the last two of the checkpoints that follow each other."""
    places = [number for number, line in enumerate(lines) if " committed in " in line]
    if len(places) < 5:
        return lines
    left_out = set(places[2:-2])
    shown = [line for number, line in enumerate(lines) if number not in left_out]
    shown.insert(places[1] + 1, f"              ... {len(left_out)} more checkpoints")
    return shown


def drawn(lines: list[str]) -> str:
    """Draw the lines as a terminal shows them."""
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere)
        for line in lines:
            text = Text(line, style="bold" if line.startswith("$") else "")
            text.highlight_regex(r"^\d\d:\d\d:\d\d\.\d+", "dim")
            text.highlight_regex(_STATES, "bold green")
            console.print(text, soft_wrap=False)
        return _FONTS.sub("", console.export_svg(title="headgate"))


if __name__ == "__main__":
    main()
