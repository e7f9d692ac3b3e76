"""The documentation as a site: built strictly, every link leads somewhere, nothing is foreign."""

from __future__ import annotations

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from headgate.cli.app import COMMANDS
from headgate.config import settings
from headgate.connectors.registry import registered
from manual.reference import errors, told_metrics

ROOT = Path(__file__).parents[2]


class Html(HTMLParser):
    """The anchors of a page, where it leads, and what a browser fetches to show it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.leads_to: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.anchors.add(str(found["id"]))
        if tag == "a" and found.get("href"):
            self.leads_to.append(str(found["href"]))
        for name in ("src", "href"):
            if tag in ("script", "img", "link") and found.get(name):
                self.loads.append(str(found[name]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Html]:
    return {path: Html(path.read_text()) for path in site.rglob("*.html")}


def test_every_page_of_the_repository_is_on_the_site(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix("")
        place = name.parent if name.name == "index" else name
        assert (site / place / "index.html").exists(), name


def test_every_link_leads_to_a_page_and_its_anchor(site: Path, pages: dict[Path, Html]) -> None:
    wrong = []
    for path, page in pages.items():
        for target in page.leads_to:
            parts = urlsplit(target)
            # The page of what is not there has links from the root of wherever the site will be.
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            file = file / "index.html" if file.is_dir() else file
            anchor = unquote(parts.fragment)
            if not file.exists() or (
                anchor and file in pages and anchor not in pages[file].anchors
            ):
                wrong.append(f"{path.relative_to(site)}: {target}")
    assert not wrong


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Html]) -> None:
    foreign = {
        f"{path.relative_to(site)}: {source}"
        for path, page in pages.items()
        for source in page.loads
        if urlsplit(source).netloc
    }
    assert not foreign


def test_no_markup_is_shown_as_text(pages: dict[Path, Html], site: Path) -> None:
    for path in pages:
        text = path.read_text()
        assert "<p>```" not in text, path.relative_to(site)
        # A list that was not seen as one.
        assert "<br>\n- " not in text, path.relative_to(site)


def test_reference_has_everything_there_is(site: Path) -> None:
    def shown(name: str) -> str:
        return (site / "reference" / name / "index.html").read_text()

    for connector in registered():
        assert f">{connector.name}<" in shown("connectors")
    for setting in settings():
        assert setting.key in shown("settings")
    for command in COMMANDS:
        assert f"headgate {command.name}" in shown("commands")
    for code in ("bad_data", "database_newer", "records_lost", "unrecoverable_epoch", "udf"):
        assert code in errors()
    assert "/api/v1/jobs/{job}/stop" in shown("rest")


def test_reference_names_the_metrics_of_a_running_service() -> None:
    told = {f"headgate_{name}" for name, _, _ in told_metrics()}
    assert {"headgate_job_rows_in_total", "headgate_checkpoint_duration_seconds"} <= told
    assert {"headgate_operator_rows_late_total", "headgate_last_checkpoint_seconds"} <= told
    assert len(told) > 40
