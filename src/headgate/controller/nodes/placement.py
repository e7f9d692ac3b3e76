"""Where a worker runs: on this machine, on which node, or what it waits for. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal
from urllib.parse import unquote, urlsplit

from headgate.core.errors import UserError
from headgate.core.masters import is_local

Workers = Literal["auto", "here", "nodes"]


@dataclass(frozen=True)
class Offer:
    """A node as the controller knows it."""

    name: str
    slots: int
    free: int
    connected: bool
    # Folders that it has in common with the controller's machine.
    shares: tuple[str, ...] = ()


@dataclass(frozen=True)
class Need:
    """What a job asks of a node."""

    slots: int
    # The folder of its state, if that is one of a machine.
    folder: str | None = None


@dataclass(frozen=True)
class Here:
    """On the controller's own machine."""


@dataclass(frozen=True)
class OnNode:
    name: str


@dataclass(frozen=True)
class Waits:
    """Nowhere yet. `for_nodes` are those that could take it if they were empty."""

    reason: str
    for_nodes: frozenset[str] = frozenset()


def need_of(*, master: str, parallelism: int, state_url: str) -> Need:
    """Return what a job asks for: on a cluster its node runs only the driver."""
    slots = parallelism if is_local(master) else 1
    return Need(slots=slots, folder=local_folder(state_url))


def local_folder(url: str) -> str | None:
    """Return the folder of a machine that a URL names; None = anybody can reach it."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return unquote(parts.path)
    return url if parts.scheme == "" else None


def choose(
    need: Need,
    offers: Sequence[Offer],
    mode: Workers,
    *,
    reserved: Collection[str] = (),
) -> Here | OnNode | Waits:
    """Decide about one job. Offers are the nodes that are there, and those not yet given up.

    `reserved` are nodes that jobs before this one wait for. Raises `UserError` if the job cannot
    run on any node whatever becomes free.
    """
    if mode == "here" or (mode == "auto" and not offers):
        return Here()
    usable = [offer for offer in offers if _shares(offer, need.folder)]
    if offers and not usable:
        # Where it is decided for the user, the job stays where its state is.
        if mode == "auto":
            return Here()
        raise _not_shared(need.folder or "")
    large = [offer for offer in usable if offer.slots >= need.slots]
    fitting = [offer for offer in large if offer.connected and offer.free >= need.slots]
    free = [offer for offer in fitting if offer.name not in reserved]
    if free:
        # Of equals the first by name, so that it can be foreseen.
        return OnNode(min(free, key=lambda offer: (-offer.free, offer.name)).name)
    for_nodes = frozenset(offer.name for offer in large)
    if fitting:
        return Waits(f"{_wants(need)}; jobs before it wait for the nodes that fit", for_nodes)
    return Waits(_reason(need, usable), for_nodes)


def _shares(offer: Offer, folder: str | None) -> bool:
    if folder is None:
        return True
    path = PurePosixPath(folder)
    return any(path.is_relative_to(shared) for shared in offer.shares)


def _wants(need: Need) -> str:
    return f"needs {need.slots} {'slot' if need.slots == 1 else 'slots'}"


def _reason(need: Need, usable: Sequence[Offer]) -> str:
    if not usable:
        return (
            f"{_wants(need)}; no node has joined: start one with `headgate node --join URL`, or let"
            " workers run here with the setting controller.workers"
        )
    said = ", ".join(_describe(offer) for offer in sorted(usable, key=lambda offer: offer.name))
    if all(offer.slots < need.slots for offer in usable):
        said += ": lower its parallelism, or join a larger node"
    return f"{_wants(need)}; {said}"


def _describe(offer: Offer) -> str:
    if not offer.connected:
        return f"node {offer.name} is lost"
    return f"node {offer.name} has {max(0, offer.free)} of {offer.slots} free"


def _not_shared(folder: str) -> UserError:
    return UserError(
        f"the state of the job is in {folder}, a folder of the controller's machine, which no node"
        " shares: keep state in an object store (state_url = 's3://...'), start nodes that see the"
        f" folder under the same path with `headgate node --shares {folder}`, or let workers run on"
        " the controller's machine (controller.workers = 'here')",
        code="state_not_shared",
    )
