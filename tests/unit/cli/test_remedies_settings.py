"""What errors tell people to set exists: settings of Headgate, options of tables, words of SQL."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from headgate.cli.about.connectors import described
from headgate.config import Config
from headgate.connectors.registry import registered

SOURCE = Path(__file__).parents[3] / "src" / "headgate"
# Where people are told something: constructors of errors and of what the doctor finds.
TELLS = re.compile(r"(Error|ErrorInfo|Finding|Invalid|Problem|error_at|_error|_refused|_finding)$")
SECTIONS = tuple(
    name for name, f in Config.model_fields.items() if hasattr(f.annotation, "model_fields")
)
# `job.package`, `source.offset`, `bad_data`; not a file, a path, a call or a part of a module.
NAME = re.compile(
    r"(?<![\w./-])(?:[a-z]+(?:_[a-z]+)+|[a-z]+\.[a-z]+(?:_[a-z]+)*)(?![\w.(/]|-[a-z])"
)
# Names of other kinds, each with the place that has it.
OTHERS = {
    # Keys of S3: `headgate.storage.s3`.
    "access_key_id", "allow_http", "secret_access_key", "session_token", "skip_signature",
    "virtual_hosted_style_request",
    # Of Kafka itself, of Postgres, of files that a person writes.
    "cleanup.policy", "client_configs", "file.py", "schema.name",
    # Of the Python that people write: process operators, connectors, `Pipeline`.
    "clear_timer", "create_table", "event_time", "partition_by", "udf_file", "expect_error",
    # Formats, functions and settings of the dialect.
    "debezium_json", "raw_bytes", "date_bin", "regexp_match", "updating_ttl",
    "event_time_field", "subtask_index",
    # A mode of `headgate restart`, and what stands for any setting of Spark.
    "ignore_state", "spark.key",
}  # fmt: skip


def messages(file: Path) -> Iterator[tuple[int, str]]:
    """Return what the errors of a file say, f-strings in their parts."""
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else None
        called = name or getattr(node.func, "id", "")
        if not TELLS.search(called):
            continue
        told = [*node.args, *(k.value for k in node.keywords if k.arg != "code")]
        for part in (part for argument in told for part in ast.walk(argument)):
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and " " in part.value:
                yield part.lineno, part.value


@cache
def known() -> frozenset[str]:
    """Return every name that can be set: settings, and options of every connector's tables."""
    names = set(OTHERS) | set(Config.model_fields)
    for section in SECTIONS:
        annotation = Config.model_fields[section].annotation
        keys = set(annotation.model_fields)  # type: ignore[union-attr]
        names |= {f"{section}.{key}" for key in keys} | keys
    for connector in registered():
        for kind in described(connector).get("kinds", {}).values():
            names |= {option["name"] for option in kind["options"]}
    return frozenset(names)


def unknown_in(text: str) -> set[str]:
    return {name for name in NAME.findall(text) if name not in known()}


@pytest.mark.parametrize(
    "file", sorted(SOURCE.rglob("*.py")), ids=lambda file: str(file.relative_to(SOURCE))
)
def test_errors_name_settings_and_options_that_exist(file: Path) -> None:
    wrong = {f"{file}:{line}": unknown_in(text) for line, text in messages(file)}
    assert not {place: names for place, names in wrong.items() if names}


def test_the_walk_sees_what_errors_name() -> None:
    """It would be green if it found nothing."""
    told = [text for file in SOURCE.rglob("*.py") for _, text in messages(file)]
    named = {name for text in told for name in NAME.findall(text)}
    assert {"controller.data_dir", "job.shared_paths", "source.offset"} <= named
    assert unknown_in("set job.scratch or source.ofset") == {"job.scratch", "source.ofset"}
    assert unknown_in("pass allow_skip_published") == {"allow_skip_published"}
    # Nothing is excused that nobody says.
    assert named >= OTHERS
