"""The documentation: its links lead somewhere, its lines fit, its words are the code's."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("*.md"),
    ]
)

COLUMNS_MAX = 120

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[(?P<text>[^\]\[]+)\]\((?P<target>[^)\s]+)\)")
_NAME = re.compile(r"`(\w+)`")


def prose(page: Path) -> str:
    """Return the page without its fences, which are examples."""
    return _FENCE.sub("", page.read_text())


def links(page: Path) -> list[tuple[str, str]]:
    """Return (text, target) of the links into the repository."""
    found = [(m["text"], m["target"]) for m in _LINK.finditer(prose(page))]
    return [(text, target) for text, target in found if not target.startswith(("http", "mailto"))]


def headings(page: Path) -> set[str]:
    """Return the anchors of a page as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}


@cache
def defined(module: Path) -> frozenset[str]:
    """Return the names that a module defines at its top level."""
    found = set()
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return frozenset(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_what_is_there(page: Path) -> None:
    wrong = []
    for text, target in links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in headings(file)):
            wrong.append(f"[{text}]({target})")
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_that_names_code_leads_to_the_module_that_defines_it(page: Path) -> None:
    wrong = []
    for text, target in links(page):
        name, file = _NAME.fullmatch(text), (page.parent / target).resolve()
        if name and file.suffix == ".py" and file.exists() and name[1] not in defined(file):
            wrong.append(f"{name[1]} is not defined in {target}")
    assert not wrong


def test_every_class_that_the_glossary_names_exists() -> None:
    page = ROOT / "docs" / "glossary.md"
    rows = [line for line in prose(page).splitlines() if line.startswith("| ")]
    words = [line for line in rows if not line.startswith("| word ")]
    assert len(words) >= 60
    for line in words:
        in_the_code = line.split(" | ")[-1]
        assert _LINK.search(in_the_code), f"no link to the code: {line}"
        bare = _NAME.search(_LINK.sub("", in_the_code))
        assert bare is None, f"{bare and bare[0]} has no link"


def test_the_glossary_has_one_meaning_for_each_word() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", prose(ROOT / "docs" / "glossary.md"), re.MULTILINE)
    words = [word.strip() for row in rows for word in row.split(",") if row != "word"]
    assert len(words) == len(set(words))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_fit(page: Path) -> None:
    """Rows of tables cannot be broken, and where a link leads does not show."""
    lines = [line for line in prose(page).splitlines() if not line.startswith("|")]
    long = [line for line in lines if len(_LINK.sub(r"[\g<text>]", line)) > COLUMNS_MAX]
    assert not long
