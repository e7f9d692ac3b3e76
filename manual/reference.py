"""The reference, made from the code: what there is cannot be described otherwise than it is."""

from __future__ import annotations

import ast
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src" / "headgate"


def _cell(text: object) -> str:
    """Return a text for one cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def _table(columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    return head + "".join(f"| {' | '.join(_cell(c) for c in row)} |\n" for row in rows) + "\n"


# ---- connectors ------------------------------------------------------------------------------


def connectors() -> str:
    """Every connector with the options of its tables."""
    from headgate.cli.about.connectors import described
    from headgate.connectors.registry import registered

    text = (
        "# Connectors and their options\n\nMade from the code, as `headgate connectors NAME` shows"
        " it. What the connectors do is in [Connectors](../connectors.md), [Kafka](../kafka.md) and"
        " [Postgres](../postgres.md).\n\n"
    )
    for entry in sorted(registered(), key=lambda entry: entry.name):
        shown = described(entry)
        text += f"## {entry.name}\n\n"
        if "problem" in shown:
            text += f"{shown['problem']}\n\n"
        for role, kind in shown.get("kinds", {}).items():
            abilities = [str(kind["guarantee"]).replace("_", " ")] if kind.get("guarantee") else []
            abilities += [key for key in ("bounded", "updating") if kind.get(key)]
            text += f"### {entry.name} as a {role}\n\n"
            text += f"{', '.join(abilities)}\n\n" if abilities else ""
            text += _options(kind["options"])
    return text


def _options(options: list[dict[str, Any]]) -> str:
    if not options:
        return "No options.\n\n"
    rows: list[tuple[object, ...]] = []
    for option in options:
        default = "" if option["default"] in (None, (), {}) else f"`{option['default']}`"
        shown = "*required*" if option["required"] else default
        rows.append((f"`{option['name']}`", option["type"], shown, option["help"]))
    return _table(("option", "type", "default", "meaning"), rows)


# ---- settings --------------------------------------------------------------------------------


def settings() -> str:
    """Every setting."""
    from headgate.config import settings as every

    rows: list[tuple[object, ...]] = [
        (f"`{setting.key}`", f"`{setting.variable}`", setting.field.description or "")
        for setting in every()
    ]
    return (
        "# Settings\n\nIn `headgate.toml`, in the environment, or as a flag:"
        " [Configuration](../configuration.md) says which counts, with the defaults.\n\n"
        + _table(("key", "environment", "meaning"), rows)
    )


# ---- commands --------------------------------------------------------------------------------


def commands() -> str:
    """Every command with its options."""
    import typer

    from headgate.cli.app import COMMANDS, app

    group: Any = typer.main.get_command(app)
    text = (
        "# Commands\n\nMade from `headgate COMMAND --help`. [The command line](../cli.md) tells how"
        " they are used.\n\n"
    )
    heading = ""
    for entry in COMMANDS:
        if entry.group != heading:
            heading = entry.group
            text += f"## {heading}\n\n"
        text += _command(group.commands[entry.name], f"headgate {entry.name}")
    return text


def _command(command: Any, path: str) -> str:
    text = f"### {path}\n\n{_prose(command.help or '')}\n\n"
    rows: list[tuple[object, ...]] = []
    for parameter in command.params:
        shown = (
            parameter.opts[0] if parameter.param_type_name == "option" else parameter.name.upper()
        )
        if shown != "--help" and not getattr(parameter, "hidden", False):
            rows.append((f"`{max([shown, *parameter.opts[1:]], key=len)}`", parameter.help or ""))
    if rows:
        text += _table(("option", "meaning"), rows)
    for name, inner in getattr(command, "commands", {}).items():
        text += _command(inner, f"{path} {name}")
    return text


def _prose(text: str) -> str:
    return text.replace("<", "&lt;").replace("\b", "").strip()


# ---- errors ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A class of errors, as the code declares it."""

    domain: str
    is_retried: bool
    code: str


@dataclass(frozen=True)
class Raised:
    """A place where an error is made: its code, what kind it is, its text, `…` for what varies."""

    code: str
    domain: str
    is_retried: bool
    message: str


def errors() -> str:
    """Every code with the messages that carry it; each message says what to do."""
    found: dict[str, set[Raised]] = defaultdict(set)
    for raised in raised_errors():
        found[raised.code].add(raised)
    text = (
        "# Errors\n\nEvery error has a code that does not change, the domain it comes from, and a"
        " message that says what to do. `…` stands for what varies. An error of the user is not"
        " retried; one of something outside is, with backoff; an internal one is a defect or a"
        " damaged file.\n\n"
    )
    for code in sorted(found):
        domains = " or ".join(sorted({raised.domain for raised in found[code]}))
        retried = "retried" if any(raised.is_retried for raised in found[code]) else "not retried"
        messages = sorted({raised.message for raised in found[code]})
        text += f"## {code}\n\n{domains} error, {retried}\n\n"
        text += "".join(f"- {_cell(message)}\n" for message in messages) + "\n"
    return text


def raised_errors() -> Iterator[Raised]:
    """Return every place in the code where an error is made with a text."""
    trees = {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
    kinds = _kinds(trees.values())
    for tree in trees.values():
        names = {
            statement.targets[0].id: statement.value.value
            for statement in tree.body
            if isinstance(statement, ast.Assign)
            and isinstance(statement.targets[0], ast.Name)
            and isinstance(statement.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name in kinds:
                yield from _of_class(node, kinds[node.name])
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield from _of_call(node, node.func.id, kinds, names)


def _kinds(trees: Iterable[ast.Module]) -> dict[str, Kind]:
    """Return all classes below `HeadgateError`, which may be defined anywhere."""
    from headgate.core import errors as module

    kinds = {
        name: Kind(str(found.domain), str(found.retry) == "with_backoff", found.code)
        for name, found in vars(module).items()
        if isinstance(found, type) and issubclass(found, module.HeadgateError)
    }
    classes = [n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    # A class may stand before its base: as often as one is found, there may be more.
    while True:
        new = {
            node.name: _declared(node, kinds[base.id])
            for node in classes
            for base in node.bases
            if isinstance(base, ast.Name) and base.id in kinds and node.name not in kinds
        }
        if not new:
            return kinds
        kinds |= new


def _declared(node: ast.ClassDef, base: Kind) -> Kind:
    """What a class says of itself; the rest is its base's."""
    kind = base
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str(code))):
                kind = replace(kind, code=code)
            case ast.Assign(targets=[ast.Name(id="retry")], value=ast.Attribute(attr=hint)):
                kind = replace(kind, is_retried=hint == "WITH_BACKOFF")
    return kind


def _of_class(node: ast.ClassDef, kind: Kind) -> Iterator[Raised]:
    """The text that a class makes for itself."""
    for inner in ast.walk(node):
        match inner:
            case ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"),
                args=[text, *_],
            ):
                yield from _told(kind.code, kind, _text(text))


def _of_call(
    node: ast.Call, name: str, kinds: dict[str, Kind], names: Mapping[str, object]
) -> Iterator[Raised]:
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    code = given.get("code")
    said = names.get(code.id, "…") if isinstance(code, ast.Name) else code and _text(code)
    if name == "ErrorInfo" and "message" in given:
        # As data: an internal error that is retried, unless it says otherwise.
        domain = ast.unparse(given["domain"]).rpartition(".")[2] if "domain" in given else ""
        retry = ast.unparse(given["retry"]) if "retry" in given else ""
        kind = Kind(domain.lower() or "internal", "NO_RETRY" not in retry, "internal")
        yield from _told(str(said or kind.code), kind, _text(given["message"]))
    elif name in kinds and node.args:
        yield from _told(str(said or kinds[name].code), kinds[name], _text(node.args[0]))


def _told(code: str, kind: Kind, message: str) -> Iterator[Raised]:
    if message.strip("… ") and code.strip("… "):
        yield Raised(code, kind.domain, kind.is_retried, message)


def _text(node: ast.expr) -> str:
    """Return a text as it stands in the code, with `…` for what is put in."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left) + _text(right)
        case ast.IfExp(body=body):
            return _text(body)
    return "…"


# ---- metrics ---------------------------------------------------------------------------------


def metrics() -> str:
    """Every metric of `/metrics`."""
    rows: list[tuple[object, ...]] = [
        (f"`headgate_{name}`", kind, meaning) for name, kind, meaning in sorted(set(told_metrics()))
    ]
    return (
        "# Metrics\n\nAt `/metrics` of the [service](../service.md), for Prometheus. Those of a job"
        " have the labels `job` and `pipeline`.\n\n" + _table(("metric", "kind", "meaning"), rows)
    )


def told_metrics() -> Iterator[tuple[str, str, str]]:
    """Return (name, kind, meaning) of every metric, as `server/prometheus.py` writes them."""
    tree = ast.parse((SOURCE / "server" / "prometheus.py").read_text())
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="add"),
                args=[
                    ast.Constant(value=str(name)),
                    ast.Constant(value=str(kind)),
                    ast.Constant(value=str(said)),
                    *_,
                ],
            ):
                yield name, kind, said
            case ast.Call(
                func=ast.Attribute(attr="add_histogram"),
                args=[ast.Constant(value=str(name)), ast.Constant(value=str(said)), *_],
            ):
                yield name, "histogram", said
            case ast.Dict(keys=keys, values=values):
                yield from _entries(keys, values)
            case ast.For(iter=ast.Tuple(elts=elements), body=body):
                yield from _repeated(elements, body)


def _entries(keys: list[ast.expr | None], values: list[ast.expr]) -> Iterator[tuple[str, str, str]]:
    """A dictionary of names with (meaning, value)."""
    for key, value in zip(keys, values, strict=True):
        match key, value:
            case ast.Constant(value=str(name)), ast.Tuple(elts=[ast.Constant(value=str(said)), *_]):
                yield name, "counter" if name.endswith("_total") else "gauge", said


def _repeated(elements: list[ast.expr], body: list[ast.stmt]) -> Iterator[tuple[str, str, str]]:
    """A loop over (part of the name, meaning) that adds a metric for each."""
    for statement in body:
        match statement:
            case ast.Expr(
                value=ast.Call(
                    args=[ast.JoinedStr() as name, ast.Constant(value=str(kind)), ast.Name(), *_]
                )
            ):
                for element in elements:
                    match element:
                        case ast.Tuple(
                            elts=[ast.Constant(value=str(part)), ast.Constant(value=str(said))]
                        ):
                            yield _text(name).replace("…", part), kind, said


# ---- REST ------------------------------------------------------------------------------------


def rest() -> str:
    """Every request, from the service's own OpenAPI."""
    document = openapi()
    text = (
        "# REST\n\nFrom the service's OpenAPI, which it serves at `/openapi.json` and shows at"
        " `/docs`. How to reach it and who may is in [The service](../service.md).\n\n"
    )
    rows: list[tuple[object, ...]] = [
        (f"`{method.upper()} {path}`", operation.get("summary", ""), _statuses(operation))
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    return text + _table(("request", "what it does", "answers"), rows)


def _statuses(operation: dict[str, Any]) -> str:
    return ", ".join(sorted(operation["responses"]))


def openapi() -> dict[str, Any]:
    """Return the OpenAPI of a service that is not started."""
    from headgate.config import load_config
    from headgate.server.app import create_app
    from headgate.server.listen import build_service

    with tempfile.TemporaryDirectory() as folder:
        config = load_config(environment={}, flags={"state_url": f"{folder}/state"}).config
        service = build_service(config)
        try:
            return create_app(service).openapi()
        finally:
            service.close()


PAGES: dict[str, Callable[[], str]] = {
    "connectors": connectors,
    "settings": settings,
    "commands": commands,
    "errors": errors,
    "metrics": metrics,
    "rest": rest,
}
