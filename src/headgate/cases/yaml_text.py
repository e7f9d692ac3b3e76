"""YAML as people mean it, with the line of everything that is said.

A country `NO` is a text, `1:30` is no number of seconds, and a time stays the text that it is:
only `true`, `false`, `null`, decimal integers and floats are anything else. A key may be said once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

Path = tuple[str | int, ...]


class YamlError(Exception):
    """The text is not YAML, or says a key twice."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass
class Document:
    """Plain values, and where each of them starts."""

    value: Any
    lines: dict[Path, int] = field(default_factory=dict)

    def line_of(self, path: Path) -> int:
        """Return the line of what a path leads to, or of the nearest thing around it."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return 1


class _Loader(yaml.SafeLoader):
    """The core schema of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012


_STRING = "tag:yaml.org,2002:str"
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first)
    )
# What a JSON document can be merged from in YAML 1.1 is a key like any other.


def parse(text: str) -> Document:
    """Parse one document. Raises `YamlError`."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        document = Document(None)
        if node is not None:
            document.value = _built(loader, node, (), document.lines)
        return document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(error.problem or str(error), mark.line + 1 if mark else 1) from error
    except yaml.YAMLError as error:
        raise YamlError(str(error), 1) from error
    finally:
        loader.dispose()


def _built(loader: _Loader, node: yaml.Node, path: Path, lines: dict[Path, int]) -> Any:
    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        built: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise YamlError("a key must be a word", line)
            key = str(key_node.value)
            if key in built:
                raise YamlError(f"'{key}' is said twice here", line)
            built[key] = _built(loader, value_node, (*path, key), lines)
            lines[(*path, key)] = line
        return built
    if isinstance(node, yaml.SequenceNode):
        return [_built(loader, n, (*path, i), lines) for i, n in enumerate(node.value)]
    # Base 8 of YAML 1.1 is none here: 010 is ten.
    if node.tag == "tag:yaml.org,2002:int":
        return int(node.value)
    if node.tag == "tag:yaml.org,2002:float":
        return float(node.value.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return loader.construct_object(node)
