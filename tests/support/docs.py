"""The examples of a page of the documentation, with their input files and the output it shows.

A fence says what it holds: `sql` is an example, `csv NAME` and `json NAME` are files that the
examples read, `python` are functions they call, `output` right after an example is what it writes:
JSON lines in any order; a last line `...` stands for more of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

_FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
MORE = "..."
SHOWN_MAX = 4


@dataclass(frozen=True)
class Example:
    sql: str
    # None = the page shows none.
    output: tuple[str, ...] | None
    # Where the text of the SQL ends in the page.
    end: int


@dataclass
class Page:
    """A page; the first example declares what the others read."""

    path: Path
    tables: str = ""
    examples: list[Example] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    python: str = ""

    @classmethod
    def read(cls, path: Path) -> Page:
        page = cls(path)
        fences = list(_FENCE.finditer(path.read_text()))
        for fence, following in zip(fences, [*fences[1:], None], strict=True):
            kind, name, text = fence[1], fence[2], fence[3]
            if kind == "sql" and not page.tables:
                page.tables = text
            elif kind == "sql":
                shown = following is not None and following[1] == "output"
                lines = tuple(following[3].splitlines()) if following and shown else None
                page.examples.append(Example(sql=text, output=lines, end=fence.end()))
            elif kind in ("csv", "json") and name:
                page.files[name] = text
            elif kind == "python":
                page.python += text
        return page

    def with_outputs(self, outputs: list[list[str]]) -> str:
        """Return the page's text with what its examples really write."""
        text = re.sub(r"\n\n```output\n.*?^```", "", self.path.read_text(), flags=re.M | re.S)
        ends = [f.end() for f in _FENCE.finditer(text) if f[1] == "sql"][1:]
        for end, lines in reversed(list(zip(ends, outputs, strict=True))):
            shown = sorted(lines)[:SHOWN_MAX] + ([MORE] if len(lines) > SHOWN_MAX else [])
            block = "\n\n```output\n" + "".join(f"{line}\n" for line in shown) + "```"
            text = text[:end] + block + text[end:]
        return text
