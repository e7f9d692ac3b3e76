"""Nodes: who has joined, and the link that each keeps open."""

from __future__ import annotations

import asyncio
import json
import logging
import queue
import threading
from contextlib import suppress

from fastapi import APIRouter, WebSocket
from pydantic import ValidationError
from starlette.websockets import WebSocketDisconnect

import headgate
from headgate.controller.nodes.hosted import HostedWorkers
from headgate.controller.nodes.messages import Hello, Refusal
from headgate.controller.nodes.registry import NodeRefused, Nodes, NodeView
from headgate.controller.nodes.session import OutOfStep, SessionOver
from headgate.core.errors import HeadgateError
from headgate.core.model import from_python, to_json
from headgate.server.routes.common import ServiceDep
from headgate.server.service import Service

router = APIRouter(prefix="/api/v1", tags=["nodes"])
log = logging.getLogger("headgate.server.nodes")

HELLO_SECONDS = 10.0
CLOSE_SECONDS = 1.0
# A connection that has so many frames waiting is closed; what was lost comes with the next one.
FRAMES_WAITING_MAX = 10_000

Frame = bytes | str


@router.get("/nodes")
def list_nodes(service: ServiceDep) -> list[NodeView]:
    """List the nodes that have joined, and those that were lost within the last hour."""
    return service.controller.nodes.views()


class _SocketOutlet:
    """Frames of one connection, from any thread into the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._frames: asyncio.Queue[Frame | None] = asyncio.Queue()

    def put(self, frame: Frame) -> None:
        self._put(frame)

    def close(self) -> None:
        self._put(None)

    def _put(self, frame: Frame | None) -> None:
        # The loop may have ended, and with it the connection.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._frames.put_nowait, frame)

    async def write(self, websocket: WebSocket) -> None:
        """Send until it is closed."""
        while (frame := await self._frames.get()) is not None:
            if isinstance(frame, str):
                await websocket.send_text(frame)
            else:
                await websocket.send_bytes(frame)


@router.websocket("/nodes/link")
async def link(websocket: WebSocket) -> None:
    """Carry a node's messages as long as its connection lasts."""
    service = websocket.app.state.service
    assert isinstance(service, Service)
    nodes = service.controller.nodes
    await websocket.accept()
    outlet = _SocketOutlet()
    try:
        said = await asyncio.wait_for(websocket.receive_text(), HELLO_SECONDS)
        hello = _hello(said)
        client = websocket.client
        address = "" if client is None else client.host
        session = await asyncio.to_thread(nodes.join, hello, outlet, address)
    except (WebSocketDisconnect, TimeoutError):
        return
    except NodeRefused as refused:
        log.warning("refused a node: %s", refused)
        await websocket.send_text(to_json(refused.refusal).decode())
        await websocket.close()
        return
    await _converse(websocket, outlet, nodes, session)


def _hello(said: str) -> Hello:
    try:
        document = json.loads(said)
        version = str(document["version"])
    except (ValueError, KeyError, TypeError):
        raise _not_understood("this is not a node of Headgate") from None
    if version != headgate.__version__:
        # What else it says may mean something else in its version.
        raise _not_understood(
            f"the node has Headgate {version}, the service {headgate.__version__}: install the same"
            " version on both",
            code="version",
        )
    try:
        found: Hello = from_python(Hello, document)
    except ValidationError as error:
        raise _not_understood(f"the node's first word is not valid: {error}") from None
    return found


def _not_understood(message: str, code: str = "hello") -> NodeRefused:
    return NodeRefused(Refusal(code=code, message=message))


async def _converse(
    websocket: WebSocket, outlet: _SocketOutlet, nodes: Nodes, session: HostedWorkers
) -> None:
    frames: queue.Queue[Frame | None] = queue.Queue(FRAMES_WAITING_MAX)
    threading.Thread(
        target=_take_frames,
        args=(session, outlet, frames),
        name=f"node-{session.node}",
        daemon=True,
    ).start()
    reading = asyncio.create_task(_read(websocket, session, frames))
    writing = asyncio.create_task(outlet.write(websocket))
    try:
        await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (reading, writing):
            task.cancel()
        # Whatever ended them, the connection is gone; the node dials again.
        await asyncio.gather(reading, writing, return_exceptions=True)
        nodes.disconnected(session, outlet)
        _put_last(frames)
        with suppress(TimeoutError, RuntimeError, OSError, WebSocketDisconnect):
            await asyncio.wait_for(websocket.close(), CLOSE_SECONDS)


async def _read(
    websocket: WebSocket, session: HostedWorkers, frames: queue.Queue[Frame | None]
) -> None:
    """Read until the connection ends. That a frame has come counts at once, not when it is taken:
    a controller that is slow must not find its nodes silent."""
    while True:
        message = await websocket.receive()
        if message["type"] != "websocket.receive":
            return
        session.channel.heard()
        frame = message.get("bytes")
        try:
            frames.put_nowait(message["text"] if frame is None else frame)
        except queue.Full:
            log.warning("node %s says more than can be taken", session.node)
            return


def _take_frames(
    session: HostedWorkers, outlet: _SocketOutlet, frames: queue.Queue[Frame | None]
) -> None:
    while (frame := frames.get()) is not None:
        try:
            session.take(frame)
        except (OutOfStep, SessionOver, ValidationError, HeadgateError) as error:
            log.warning("node %s: its connection is closed: %s", session.node, error)
            if not isinstance(error, OutOfStep):
                # To hear it again would be of no use: the session begins anew.
                session.channel.end()
            outlet.close()
            return


def _put_last(frames: queue.Queue[Frame | None]) -> None:
    """End the thread that takes the frames, after those that have come."""
    while True:
        try:
            frames.put_nowait(None)
            return
        except queue.Full:
            with suppress(queue.Empty):
                frames.get_nowait()
