"""What a person may do with the savepoints of a job, beside taking them."""

from __future__ import annotations

from headgate.core.errors import ObjectNotFound, UserError
from headgate.core.ids import JobId
from headgate.core.ports import ObjectStore
from headgate.state.protocol import layout
from headgate.state.protocol.epoch_log import list_savepoints
from headgate.state.protocol.writes import delete_savepoint


def forget_savepoint(store: ObjectStore, job: JobId, name: str) -> None:
    """Delete a savepoint's name, damaged or not. Raises `UserError` if there is none.

    The checkpoint itself is deleted by the next cleanup, unless something else still needs it.
    """
    try:
        store.head(layout.savepoint(name))
    except ObjectNotFound as error:
        names = ", ".join(savepoint.name for savepoint in list_savepoints(store, job))
        raise UserError(
            f"job {job} has no savepoint '{name}'; it has {names or 'none'}",
            code="no_such_savepoint",
        ) from error
    delete_savepoint(store, name)
