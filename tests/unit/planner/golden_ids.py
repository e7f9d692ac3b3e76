"""The ids and fingerprints of every golden pipeline, as they are kept in `golden_ids.json`.

A job finds its state again by the ids of its operators, which hash the text that sqlglot writes.
So the file may gain pipelines, but an id that changes means that every running job of its kind
would lose its state. `python -m tests.unit.planner.golden_ids` writes it anew: read the diff.
A changed fingerprint alone loses nothing: the new graph is compared operator by operator.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from headgate.planner import plan

FILE = Path(__file__).with_suffix(".json")
GOLDEN = Path(__file__).parents[2] / "golden"
PIPELINES = sorted((GOLDEN / "pipelines").glob("*.sql"))


def entry(file: Path) -> dict[str, Any]:
    """Return what is kept of one pipeline; its folders have fixed names, which are in the graph."""
    sql = file.read_text()
    text = (GOLDEN / "tables.sql").read_text() + sql
    text = text.replace("$input_dir", "/input").replace("$output_dir", "/output")
    functions = re.search(r"^-- udfs: (.+)$", sql, re.MULTILINE)
    source = (file.parent / functions[1]).read_text() if functions else None
    graph = plan(text, udf_source=source)
    return {"operators": [o.id for o in graph.operators], "fingerprint": graph.fingerprint()}


def main() -> None:
    entries = {file.stem: entry(file) for file in PIPELINES}
    FILE.write_text(json.dumps(entries, indent=1) + "\n")
    print(f"wrote {len(entries)} pipelines to {FILE}")


if __name__ == "__main__":
    main()
