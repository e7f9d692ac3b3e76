"""What may be deleted, and in which order.

Kept: the newest `keep_last` complete checkpoints and everything newer than the oldest of them,
epochs that are not yet committed, savepoints, and what the newest generation was started from. A
damaged checkpoint does not count towards `keep_last`: deleting the last intact one because newer
ones are damaged would be the worst of all moments.

**What can still become part of a checkpoint** must not be deleted, and a zombie may be writing. The
log of epochs decides who can. Let G be the generation of the newest record, epoch n:
- A generation before G can never record again: record n+1 must continue record n, which is not
  its own. All its unreferenced files are garbage, however young.
- G itself may record n+1. It refers to the runs of n, which are referenced by the record of n, and
  to files it wrote since, whose names bear an epoch after n. Older unreferenced files are garbage.
- Generations after G have recorded nothing yet. All their files are kept until one of them does.
So unreferenced files stay unreferenced for ever, and a cleanup that sleeps for a day between its
plan and its deletes does no harm. Only a person can refer to old things again, by a savepoint.

That is also why a cleanup can be done **in slices**, with checkpoints in between: it goes on where
it stopped, with the log, the listing and the plan that it has, and lists nothing twice.

**Order**: epoch records, then manifests, then all other data, then markers.
- Records go first, oldest first: a checkpoint whose data is going must not look usable. A crash
  after that leaves unreferenced files, which the next cleanup finds by listing.
- Savepoints are read between: a savepoint that was created too late to be seen finds the record
  gone and withdraws (`protocol.write_savepoint`).
- Markers go last: where a record is gone and its marker is not, nobody can take the epoch's place.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from headgate.core.failpoints import failpoint
from headgate.core.ids import Generation, JobId
from headgate.core.model import model
from headgate.core.ports import ObjectInfo, ObjectStore
from headgate.state.cleanup.survey import PAGE, FilesKnown, Steps, Survey
from headgate.state.protocol.derive import SetAside
from headgate.state.protocol.writes import highest_generation


@model
class CleanupReport:
    """What one slice has deleted, and what stood in the way."""

    objects: int = 0
    bytes: int = 0
    # Kept but unreadable: nobody knows what they refer to, so all files up to their epochs stay.
    unreadable: tuple[SetAside, ...] = ()
    # A newer generation exists: cleaning up is its business.
    fenced: bool = False
    # Whether all is done. If not, another call with the same `CleanupProgress` goes on.
    finished: bool = True


@dataclass
class CleanupProgress:
    """What is kept from one call to the next: what was read, and a cleanup that is not finished."""

    known: FilesKnown = field(default_factory=FilesKnown)
    cleanup: Cleanup | None = None


class Cleanup:
    """One cleanup, from its look at the log to its last delete, in steps."""

    def __init__(
        self,
        store: ObjectStore,
        job: JobId,
        known: FilesKnown,
        *,
        live: Generation,
        keep_last: int,
        modified_until_ms: int,
    ) -> None:
        self._store = store
        self._job = job
        self.fenced = False
        self._survey = Survey(store, job, known)
        self._deleted: list[ObjectInfo] = []
        self.settings = (live, keep_last)
        self.steps = self._steps(live, keep_last, modified_until_ms)

    def _steps(self, live: Generation, keep_last: int, modified_until_ms: int) -> Steps:
        """Do it; yield wherever it may be interrupted."""
        survey = self._survey
        if (yield from self._is_replaced(live)):
            return
        if not (yield from survey.look(live, keep_last)):
            return
        if (yield from self._is_replaced(live)):
            return
        failpoint("cleanup.before_delete")
        # One by one, for their order: a crash must not leave a gap in the log.
        for record in (yield from survey.plan_records()).records:
            yield
            self._store.delete(record.path)
            self._deleted.append(record)
        failpoint("cleanup.middle")
        # The savepoints are read again, now that no new one can refer to a deleted record.
        plan = yield from survey.plan(modified_until_ms)
        if (yield from self._is_replaced(live)):
            return
        for garbage in (plan.manifests, plan.data, plan.markers):
            yield from self._delete(garbage)
        survey.forget_the_rest()

    def _is_replaced(self, live: Generation) -> Generator[None, None, bool]:
        """Whether cleaning up is another's business by now. If it is later, no harm is done."""
        highest = highest_generation(self._store, self._job)
        self.fenced = highest is not None and highest > live
        yield
        return self.fenced

    def _delete(self, garbage: Sequence[ObjectInfo]) -> Steps:
        for start in range(0, len(garbage), PAGE):
            yield
            page = garbage[start : start + PAGE]
            self._store.delete_many([info.path for info in page])
            self._deleted.extend(page)

    def report(self, *, finished: bool) -> CleanupReport:
        """Return what was done since the last report."""
        deleted, self._deleted = self._deleted, []
        return CleanupReport(
            objects=len(deleted),
            bytes=sum(info.bytes for info in deleted),
            unreadable=tuple(self._survey.unreadable),
            fenced=self.fenced,
            finished=finished,
        )


def run_cleanup(
    store: ObjectStore,
    job: JobId,
    *,
    keep_last: int = 10,
    live_generation: Generation,
    now_ms: int,
    grace_ms: int = 0,
    progress: CleanupProgress | None = None,
    until: Callable[[], bool] = lambda: False,
    steps_least: int = 1,
) -> CleanupReport:
    """Delete what nobody can reach. May be interrupted anywhere and run again.

    It ends early when `until` says so, which it is asked after every step: a request or two, a page
    of the listing, a page of deletes. With the same `progress` the next call goes on from there,
    and reads only checkpoints that are new. `steps_least` are done in any case, so that every call
    gets on.

    Unreferenced files younger than `grace_ms` are left for the next time; safety does not depend
    on it.
    """
    progress = progress or CleanupProgress()
    unfinished, progress.cleanup = progress.cleanup, None
    if unfinished is None or unfinished.settings != (live_generation, keep_last):
        unfinished = Cleanup(
            store,
            job,
            progress.known,
            live=live_generation,
            keep_last=keep_last,
            modified_until_ms=now_ms - grace_ms,
        )
    # An error ends this cleanup: the next call begins a new one.
    for done, _ in enumerate(unfinished.steps, 1):
        if until() and done >= steps_least:
            progress.cleanup = unfinished
            return unfinished.report(finished=False)
    return unfinished.report(finished=True)
