"""The five phases of a recovery, timed.

identify and prepare are timed by whoever reads the storage; the others run from one event of the
worker to the next: restart_workers ends when it registers, restore when it has restored, resume
with its first micro-batch.
"""

from __future__ import annotations

from dataclasses import replace

from headgate.controller.rules.events import LoadPlanned
from headgate.controller.rules.job_facts import JobFacts, RecoveryClock
from headgate.controller.rules.notes import Note, PhaseNote, ResumedNote, SkippedNote
from headgate.core.checkpoint import WATERMARK_MIN

Timed = tuple[JobFacts, tuple[Note, ...]]


def recovery_began(facts: JobFacts, reason: str, now_ms: int) -> JobFacts:
    """A failure was noticed: a new recovery is counted from here."""
    number = facts.recoveries + 1
    clock = RecoveryClock(number=number, failed_ms=now_ms, reason=reason, phase_started_ms=now_ms)
    return replace(facts, recoveries=number, recovery=clock)


def load_planned(facts: JobFacts, event: LoadPlanned, now_ms: int) -> Timed:
    """Phases 1 and 2 are over; phase 3 begins. What the store knows, the job knows from here on."""
    facts = _with_what_is_stored(facts, event)
    notes: list[Note] = [
        SkippedNote(epoch=skipped.epoch, reason=skipped.reason) for skipped in event.skipped
    ]
    notes += _resumed(event)
    clock = facts.recovery
    if clock is None:
        return facts, tuple(notes)
    started_ms = now_ms - round(event.identify_ms + event.prepare_ms)
    for phase, duration_ms in (("identify", event.identify_ms), ("prepare", event.prepare_ms)):
        notes.append(
            PhaseNote(
                recovery=clock.number,
                phase=phase,
                started_ms=started_ms,
                duration_ms=duration_ms,
            )
        )
        started_ms += round(duration_ms)
    clock = replace(clock, phase="restart_workers", phase_started_ms=now_ms)
    return replace(facts, recovery=clock), tuple(notes)


def _resumed(event: LoadPlanned) -> tuple[Note, ...]:
    plan = event.plan
    if plan.checkpoint is None and not plan.replays:
        return ()
    # Epochs that are rebuilt come after the one whose state is loaded.
    cut = plan.replays[-1].cut if plan.replays else plan.cut
    return (
        ResumedNote(
            epoch=event.lineage.last_epoch,
            created_ms=event.created_ms,
            watermark=WATERMARK_MIN if cut is None else cut.watermark,
            totals=None if cut is None else cut.totals,
        ),
    )


def _with_what_is_stored(facts: JobFacts, event: LoadPlanned) -> JobFacts:
    """Take over the newest epoch and what is ignored, of which a new database knows nothing.

    At once, not only when a worker has restored: a person may begin the job anew before that, and
    what is ignored then must include every epoch that there is. From which generation on things
    count is asked of the newest claim each time: here it would say that a person began anew.
    """
    return replace(
        facts,
        last_epoch=max(facts.last_epoch, event.lineage.last_epoch),
        ignore_through=max(facts.ignore_through, event.ignore_through),
    )


def worker_registered(facts: JobFacts, now_ms: int) -> Timed:
    """Phase 3 is over; phase 4 begins."""
    clock = facts.recovery
    if clock is None or clock.phase != "restart_workers":
        return facts, ()
    note = _note(clock, now_ms, {})
    return replace(facts, recovery=replace(clock, phase="restore", phase_started_ms=now_ms)), (
        note,
    )


def worker_restored(facts: JobFacts, timings: dict[str, float], now_ms: int) -> Timed:
    """Phase 4 is over; phase 5 begins."""
    clock = facts.recovery
    if clock is None or clock.phase != "restore":
        return facts, ()
    note = _note(clock, now_ms, timings)
    timed = replace(
        facts,
        recovery=replace(clock, phase="resume", phase_started_ms=now_ms),
        restart_cost_ms=float(now_ms - clock.failed_ms),
    )
    return timed, (note,)


def work_resumed(facts: JobFacts, now_ms: int) -> Timed:
    """Phase 5 is over, and with it the recovery."""
    clock = facts.recovery
    if clock is None or clock.phase != "resume":
        return facts, ()
    return replace(facts, recovery=None), (_note(clock, now_ms, {}),)


def _note(clock: RecoveryClock, now_ms: int, detail: dict[str, float]) -> PhaseNote:
    return PhaseNote(
        recovery=clock.number,
        phase=clock.phase,
        started_ms=clock.phase_started_ms,
        duration_ms=float(now_ms - clock.phase_started_ms),
        detail=detail,
    )
