"""The prompt: what is typed, with history, completion and the keys; what it means is elsewhere."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import completion_is_selected
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]

from headgate.connectors.registry import registered
from headgate.shell.completion import candidates
from headgate.shell.interpreter import Interpreter
from headgate.shell.running import Workers
from headgate.shell.screen import Screen
from headgate.shell.session import Session
from headgate.shell.splitting import is_complete

HISTORY_VARIABLE = "HEADGATE_SHELL_HISTORY"
PROMPT, MORE = "headgate> ", "      ... "
TOOLBAR_SECONDS = 0.5
READY = "ready"


def history_file(environment: dict[str, str]) -> Path:
    """Return where the history is kept."""
    named = environment.get(HISTORY_VARIABLE)
    if named:
        return Path(named)
    state = environment.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "headgate" / "shell_history"


def open_history(screen: Screen) -> History:
    """Open the history; without one the shell still works."""
    path = history_file(dict(os.environ))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # What was typed may hold secrets: it is for the owner.
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
    except OSError as error:
        screen.complain(f"the history is not kept: {path}: {error.strerror}")
        return InMemoryHistory()
    return FileHistory(str(path))


def converse(interpreter: Interpreter, workers: Workers, screen: Screen) -> None:
    """Read and do statements until the person leaves."""
    prompting: PromptSession[str] = PromptSession(
        history=open_history(screen),
        completer=SqlCompleter(interpreter.session),
        complete_while_typing=False,
        multiline=True,
        key_bindings=_keys(),
        lexer=PygmentsLexer(SqlLexer),
        prompt_continuation=MORE,
        bottom_toolbar=lambda: _toolbar(workers),
        enable_open_in_editor=True,
    )
    screen.answer("headgate shell: SQL ends with ';', \\? helps, Ctrl-D ends the shell")
    while not interpreter.over:
        try:
            text = prompting.prompt(PROMPT, pre_run=lambda: _follow_start(workers))
        except KeyboardInterrupt:
            # What was typed is given up, and nothing else.
            continue
        except EOFError:
            return
        if text.strip():
            interpreter.execute(text, go_on=True)


class SqlCompleter(Completer):
    """Asks what may follow, for Tab."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connectors = [c.name for c in registered()]

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        found = candidates(
            document.text_before_cursor,
            document.text_after_cursor,
            self._session.catalog,
            self._connectors,
        )
        for each in found:
            yield Completion(each.text, start_position=-each.replaced, display_meta=each.kind)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~completion_is_selected)
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        at_end = not buffer.document.text_after_cursor.strip()
        if at_end and is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("enter", filter=completion_is_selected)
    def choose(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    return keys


def _follow_start(workers: Workers) -> None:
    """Draw the last line anew while what it says about Spark changes."""
    application = get_app()

    async def follow() -> None:
        shown = ""
        while (said := _toolbar(workers)) != READY:
            if said != shown:
                application.invalidate()
            shown = said
            await asyncio.sleep(TOOLBAR_SECONDS)
        application.invalidate()

    application.create_background_task(follow())


def _toolbar(workers: Workers) -> str:
    worker = workers.current
    if worker.failure is not None:
        return f"Spark cannot be started: {worker.failure.message}"
    if worker.gone:
        return "the worker has ended: the next query starts another one"
    if worker.ready:
        return READY
    return f"Spark is starting ({time.monotonic() - worker.started:.0f} s)"
