"""What a controller and a node say to each other.

A connection begins with `Hello` and `Welcome` (or `Refusal`), as text. Then both sides send pieces
of messages (`session.py`), and every now and then a `Beat`: I live, and have received so much.
"""

from __future__ import annotations

import zlib
from typing import Annotated, Any, Literal

from pydantic import Field

from headgate.controller.nodes.session import MESSAGE_BYTES_MAX
from headgate.controller.processes.logs import LogFound
from headgate.core.errors import InternalError
from headgate.core.ids import Generation, JobId
from headgate.core.messages import ControllerMessage, SpareSettings, WorkerMessage
from headgate.core.model import from_json, model, to_json

# ---- the beginning of a connection -----------------------------------------------------------


@model
class Hello:
    """The node's first word. `version` is looked at before anything else."""

    version: str
    # What people call it, and what tells this process from a later one of that name.
    node: str
    instance: str
    host: str
    slots: int
    # Local folders that it has in common with the controller's machine.
    shares: tuple[str, ...] = ()
    # Of its slots, those that are not this controller's to give, as in `SlotsTaken`.
    taken: int = 0
    # The session that it wants to go on with, and how far it has received; None = a new one.
    session: str | None = None
    received: int = 0


@model
class Welcome:
    kind: Literal["welcome"] = "welcome"
    # Of the controller's process.
    instance: str
    session: str
    # False = it is a new one: whatever runs for an older one is to be ended.
    resumed: bool
    received: int
    # How long either side bears to hear nothing.
    timeout_ms: int


@model
class Refusal:
    kind: Literal["refusal"] = "refusal"
    code: str
    message: str
    # Whether it may be otherwise in a while.
    passing: bool = False


Answer = Annotated[Welcome | Refusal, Field(discriminator="kind")]


@model
class Beat:
    """I live, and have taken every piece up to this number."""

    received: int


# ---- controller -> node ----------------------------------------------------------------------


@model
class StartOrder:
    """Start the worker of a generation."""

    kind: Literal["start"] = "start"
    job: JobId
    generation: Generation
    token: str
    slots: int
    needs: SpareSettings


@model
class Tell:
    """Pass this on to the worker."""

    kind: Literal["tell"] = "tell"
    job: JobId
    generation: Generation
    message: ControllerMessage


@model
class KillOrder:
    """End the worker of this generation and every older one; answered with `Killed`."""

    kind: Literal["kill"] = "kill"
    request: int
    job: JobId
    generation: Generation


@model
class ReadLog:
    """Answered with `LogRead`; without `offset` it is the end of the log that is wanted."""

    kind: Literal["read_log"] = "read_log"
    request: int
    job: JobId
    generation: Generation
    offset: int | None
    bytes_max: int


@model
class ForgetJob:
    """The job was deleted."""

    kind: Literal["forget"] = "forget"
    job: JobId


@model
class Farewell:
    """The controller stops: its workers are to end."""

    kind: Literal["farewell"] = "farewell"


ToNode = Annotated[
    StartOrder | Tell | KillOrder | ReadLog | ForgetJob | Farewell, Field(discriminator="kind")
]

# ---- node -> controller ----------------------------------------------------------------------


@model
class WorkerSays:
    kind: Literal["says"] = "says"
    job: JobId
    message: WorkerMessage


@model
class WorkerGone:
    """The process has ended, with everything it had started."""

    kind: Literal["gone"] = "gone"
    job: JobId
    generation: Generation
    exit_code: int | None
    log_tail: str


@model
class OrderRefused:
    """The worker was not started."""

    kind: Literal["refused"] = "refused"
    job: JobId
    generation: Generation
    reason: str


@model
class Killed:
    kind: Literal["killed"] = "killed"
    request: int
    # None = none of them lives any more.
    failure: str | None = None


@model
class LogRead:
    kind: Literal["log"] = "log"
    request: int
    log: LogFound


@model
class SlotsTaken:
    """How many of the node's slots are not this controller's to give: others' workers hold them."""

    kind: Literal["slots_taken"] = "slots_taken"
    by_others: int


@model
class Goodbye:
    """The node stops, and its workers with it."""

    kind: Literal["goodbye"] = "goodbye"


ToController = Annotated[
    WorkerSays | WorkerGone | OrderRefused | Killed | LogRead | SlotsTaken | Goodbye,
    Field(discriminator="kind"),
]

# ---- as bytes --------------------------------------------------------------------------------

# What is smaller is not worth it.
_COMPRESSED_FROM = 512
_PLAIN, _DEFLATED = b"p", b"z"


def encode(message: object) -> bytes:
    """Return the message as it travels. A loading plan of thousands of subtasks repeats itself."""
    data = to_json(message)
    if len(data) < _COMPRESSED_FROM:
        return _PLAIN + data
    return _DEFLATED + zlib.compress(data, 1)


def decode(kind: Any, data: bytes) -> Any:
    """Read a message. Raises `pydantic.ValidationError` or `InternalError`."""
    body = data[1:]
    if data[:1] == _DEFLATED:
        reader = zlib.decompressobj()
        try:
            body = reader.decompress(body, MESSAGE_BYTES_MAX)
        except zlib.error as error:
            raise InternalError(f"a message of the link is damaged: {error}") from error
        if not reader.eof:
            raise InternalError("a message of the link is cut off, or too large")
    return from_json(kind, body)
