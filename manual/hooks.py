"""What MkDocs calls: adds the pages of the reference, and fits the pages of `docs/` to the site.

The pages are written for whoever reads them in the repository. There a link may lead to the code;
on the site such a link becomes a name with its path, and the file that a fence names a title.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
# MkDocs loads this file by its path.
sys.path.insert(0, str(ROOT))

from manual.reference import PAGES  # noqa: E402

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]\[]+)\]\((?P<target>[^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_TITLED = re.compile(r"^```(\w+) ([^\s=]+)$", re.MULTILINE)
_LIST = re.compile(r"^(?:- |\d+\. )")
# What continues a list, begins one, or cannot be one.
_NO_PARAGRAPH = re.compile(r"^(?:- |\d+\. |\s|#|\||>|```|$)")
_DEEPER = re.compile(r"^( {2,3})(?=(?:- |\d+\. ))", re.MULTILINE)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are made from the code."""
    for name, make in PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=make()))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page's text as the site's Markdown has it."""
    # A page that is made has no file; its links are those of the folder it would lie in.
    folder = (Path(config.docs_dir) / page.file.src_uri).parent
    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(markdown):
        parts += [_prose(markdown[end : fence.start()], folder, config), _titled(fence[0])]
        end = fence.end()
    return "".join([*parts, _prose(markdown[end:], folder, config)])


def _titled(fence: str) -> str:
    """Show the name of the file that a fence holds above it."""
    return _TITLED.sub(r'```\1 title="\2"', fence, count=1)


def _prose(text: str, folder: Path, config: MkDocsConfig) -> str:
    text = _LINK.sub(lambda found: _linked(found, folder, Path(config.docs_dir)), text)
    return _spaced(text)


def _linked(found: re.Match[str], folder: Path, docs: Path) -> str:
    """Return a link within the site as it is; one to the code as its text, which has the path."""
    path = found["target"].partition("#")[0]
    if not path or path.startswith(("http", "mailto")):
        return found[0]
    target = (folder / path).resolve()
    if target.is_relative_to(docs):
        return found[0]
    if target == ROOT / "README.md":
        return f"[{found['text']}]({_up(folder, docs)}index.md)"
    if not target.exists() or found["image"]:
        raise PluginError(f"{found[0]} leads to nothing that the site has")
    return f'<span title="{target.relative_to(ROOT)}">{_as_html(found["text"])}</span>'


def _up(folder: Path, docs: Path) -> str:
    return "../" * len(folder.relative_to(docs).parts)


def _as_html(text: str) -> str:
    """Markdown in an element is left as it is by some renderers: a name in code is all there is."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)


def _spaced(text: str) -> str:
    """Put an empty line before a list that follows a paragraph, and four spaces before inner ones.

    The repository's Markdown needs neither, Python's needs both.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        after_paragraph = lines and not _NO_PARAGRAPH.match(lines[-1]) and not _in_list(lines)
        if after_paragraph and _LIST.match(line):
            lines.append("")
        lines.append(line)
    return _DEEPER.sub("    ", "\n".join(lines))


def _in_list(lines: list[str]) -> bool:
    """Whether the last line continues an item."""
    for line in reversed(lines):
        if not line.strip():
            return False
        if _LIST.match(line):
            return True
    return False


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page whose fences were not understood."""
    if re.search(r"<p>[^<]*```", output):
        raise PluginError(f"{page.file.src_uri}: a fence is shown as text")
    return output


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Say the version in the page's foot."""
    import headgate

    config.copyright = f"Headgate {headgate.__version__}, Apache-2.0"
    return config
