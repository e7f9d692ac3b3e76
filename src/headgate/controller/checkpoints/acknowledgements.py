"""Who still owes an acknowledgement of the checkpoint in flight, and what has come.

The one home of both. A checkpoint of 20 operators with 1,000 subtasks each is acknowledged 20,000
times, so taking one must not look at the others: both collections are persistent tries, in which
a changed copy shares all but a few nodes with the one it was made from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import CoreSchema, core_schema
from rpds import HashTrieMap, HashTrieSet

from headgate.controller.rules.job_facts import OperatorNeed
from headgate.core.checkpoint import SubtaskAck, subtasks_owed
from headgate.core.ids import OperatorId

AckKey = tuple[OperatorId, int]


@dataclass(frozen=True)
class Acknowledgements:
    """A set of acknowledgements, keyed by (operator, subtask), of one attempt."""

    _owed: HashTrieSet[AckKey]
    _received: HashTrieMap[AckKey, SubtaskAck]

    @classmethod
    def none_of(cls, needs: tuple[OperatorNeed, ...], parallelism: int) -> Acknowledgements:
        """Return the beginning: every subtask of every operator owes one."""
        keys = (
            (need.operator, subtask)
            for need in needs
            for subtask in range(subtasks_owed(need.role, parallelism))
        )
        return cls(HashTrieSet(keys), HashTrieMap())

    def with_ack(self, ack: SubtaskAck) -> Acknowledgements:
        """Return the set with this one, or itself if nobody owes it (any more).

        The first one counts: a repeated message says the same, a zombie's must not replace it.
        """
        key = (ack.operator, int(ack.subtask))
        if key not in self._owed:
            return self
        return replace(
            self, _owed=self._owed.remove(key), _received=self._received.insert(key, ack)
        )

    @property
    def is_complete(self) -> bool:
        return not self._owed

    def missing(self) -> list[AckKey]:
        """Return who has not acknowledged, in order. Looks at all of them."""
        return sorted(self._owed)

    def received(self) -> tuple[SubtaskAck, ...]:
        """Return what has come, by operator and subtask. Looks at all of it."""
        return tuple(self._received[key] for key in sorted(self._received))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        # It is part of a phase that is never stored: a value is taken as it is, not rebuilt.
        return core_schema.is_instance_schema(cls)
