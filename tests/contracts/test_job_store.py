"""One suite for the job store over SQLite and over a real Postgres."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from headgate.controller.applying import Change, apply_event
from headgate.controller.rules.events import StopRequested, TakenUp
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.notes import CheckpointNote, Note, PhaseNote
from headgate.controller.rules.spec import JobSpec
from headgate.controller.rules.state import JobState, stored_form
from headgate.controller.rules.states.created import Created
from headgate.controller.store.jobs import CHECKPOINTS_KEPT, JobStore, Saved, StoredJob
from headgate.controller.store.leases import Lease, LeaseLost
from headgate.controller.store.tables import jobs
from headgate.core.errors import InternalError, UserError
from headgate.core.ids import Epoch, Generation, JobId
from tests.unit.controller.job_under_rules import every_state

JOB = JobId("orders")
NOBODY = JobId("nobody")
TTL_MS = 10_000


@pytest.fixture
def store(url: str) -> Iterator[JobStore]:
    store = JobStore(url)
    yield store
    store.close()


def take_over(store: JobStore, holder: str) -> Lease:
    """Take the lease as if the one who has it were dead."""
    lease = store.leases.acquire(JOB, holder, ttl_ms=TTL_MS, is_dead=lambda holder: True)
    assert isinstance(lease, Lease)
    return lease


def spec(**changes: object) -> JobSpec:
    fields = {"name": "orders", "sql": "SELECT 1", "state_url": "memory://x", "parallelism": 2}
    return JobSpec(**{**fields, **changes})  # type: ignore[arg-type]


def created(store: JobStore, job: JobId = JOB, *, now_ms: int = 1_000, **changes: object) -> None:
    facts = JobFacts(job=job, limits=Limits(), parallelism=2, entered_ms=now_ms)
    store.create_job(job, spec(**changes), Created(facts=facts), now_ms)


def lease_of(store: JobStore, holder: str = "a") -> Lease:
    lease = store.leases.acquire(JOB, holder, ttl_ms=TTL_MS)
    assert isinstance(lease, Lease)
    return lease


def get(store: JobStore) -> StoredJob:
    stored = store.get_job(JOB)
    assert stored is not None
    return stored


def change_to(
    before: JobState, after: JobState, *, at_ms: int = 2_000, notes: tuple[Note, ...] = ()
) -> Change:
    return Change(
        before=before,
        after=after,
        stored=stored_form(after),
        reason="because",
        notes=notes,
        at_ms=at_ms,
    )


# ---- jobs ------------------------------------------------------------------------------------


def test_job_is_found_again_as_it_was_created(store: JobStore) -> None:
    created(store)
    stored = get(store)
    assert stored.spec == spec()
    assert stored.state.kind == "created"
    assert stored.version == 1
    assert store.get_job(NOBODY) is None


def test_job_id_can_be_used_only_once(store: JobStore) -> None:
    created(store)
    with pytest.raises(UserError, match="already a job"):
        created(store)


def test_jobs_are_listed_oldest_first_and_by_pipeline(store: JobStore) -> None:
    created(store, JobId("b"), now_ms=1)
    created(store, JobId("a"), now_ms=2)
    created(store, JobId("c"), now_ms=3, name="other")
    assert [stored.job for stored in store.list_jobs()] == ["b", "a", "c"]
    assert [stored.job for stored in store.list_jobs(pipeline="orders")] == ["b", "a"]


def test_newest_job_of_a_pipeline_and_state_is_found(store: JobStore) -> None:
    created(store, JobId("old"), now_ms=1)
    created(store, JobId("new"), now_ms=2)
    created(store, JobId("elsewhere"), now_ms=3, state_url="memory://y")
    found = store.find_job(pipeline="orders", state_url="memory://x")
    assert found is not None
    assert found.job == "new"
    assert store.find_job(pipeline="orders", state_url="memory://z") is None


def test_spec_can_be_changed_without_touching_the_state(store: JobStore) -> None:
    created(store)
    store.update_spec(JOB, spec(parallelism=7), now_ms=5)
    stored = get(store)
    assert (stored.spec.parallelism, stored.version) == (7, 1)


def test_deleted_job_is_gone_with_its_history(store: JobStore) -> None:
    created(store)
    lease = lease_of(store)
    before = get(store).state
    after = apply_event(before, TakenUp(claimant="c"), 2_000, lambda change: None).state
    store.save(lease, 1, change_to(before, after))
    store.delete_job(JOB)
    assert store.get_job(JOB) is None
    assert store.read_history(JOB) == []
    created(store)


@pytest.mark.parametrize("name", sorted(every_state()))
def test_every_state_is_read_back_as_it_was_saved(store: JobStore, name: str) -> None:
    created(store)
    state = every_state()[name].state
    saved = store.save(lease_of(store), 1, change_to(get(store).state, state))
    assert saved == Saved(version=2)
    assert get(store).state == stored_form(state)


def test_database_keeps_its_own_name(url: str, store: JobStore) -> None:
    again = JobStore(url)
    assert again.database == store.database
    again.close()


def test_job_that_cannot_be_read_is_named_and_does_not_hide_the_others(store: JobStore) -> None:
    created(store, JobId("good"))
    created(store, JobId("bad"))
    with store._engine.begin() as connection:
        connection.execute(
            sa.update(jobs).where(jobs.c.id == "bad").values(state='{"kind":"from the future"}')
        )
    assert [stored.job for stored in store.list_jobs()] == ["good"]
    with pytest.raises(InternalError, match="job bad cannot be read"):
        store.get_job(JobId("bad"))


# ---- saving ----------------------------------------------------------------------------------


def test_write_of_a_controller_that_lost_its_lease_changes_nothing(store: JobStore) -> None:
    created(store)
    old = lease_of(store, "a")
    new = take_over(store, "b")
    before = get(store).state
    after = apply_event(before, StopRequested(mode="force"), 60_000, lambda change: None).state
    assert store.save(old, 1, change_to(before, after)) == LeaseLost()
    assert get(store).state == before
    assert store.read_history(JOB) == []
    assert store.save(new, 1, change_to(before, after)) == Saved(version=2)


def test_write_that_does_not_know_the_last_one_changes_nothing(store: JobStore) -> None:
    created(store)
    lease = lease_of(store)
    before = get(store).state
    after = apply_event(before, TakenUp(claimant="c"), 2_000, lambda change: None).state
    assert store.save(lease, 1, change_to(before, after)) == Saved(version=2)
    assert store.save(lease, 1, change_to(before, after)) == LeaseLost()
    assert len(store.read_history(JOB)) == 1


def test_write_whose_answer_was_lost_is_not_refused_when_it_is_repeated(store: JobStore) -> None:
    created(store)
    lease = lease_of(store)
    before = get(store).state
    after = apply_event(before, TakenUp(claimant="c"), 2_000, lambda change: None).state
    for _ in range(2):
        assert store.save(lease, 1, change_to(before, after), again=True) == Saved(version=2)
    assert len(store.read_history(JOB)) == 1
    take_over(store, "b")
    assert store.save(lease, 1, change_to(before, after), again=True) == LeaseLost()


def test_history_keeps_every_change_with_reason_and_duration(store: JobStore) -> None:
    created(store, now_ms=1_000)
    lease, version = lease_of(store), 1
    state = get(store).state
    for at_ms, event in ((1_500, TakenUp(claimant="c")), (1_700, StopRequested(mode="force"))):
        applied = apply_event(state, event, at_ms, lambda change: None)
        assert applied.change is not None
        saved = store.save(lease, version, applied.change)
        assert isinstance(saved, Saved)
        state, version = applied.state, saved.version
    moves = [entry.transition for entry in store.read_history(JOB)]
    assert [(m.before, m.after, m.duration_ms) for m in moves if m] == [
        ("created", "compiling", 500),
        ("compiling", "stopped", 200),
    ]
    assert all(m.reason for m in moves if m)
    assert [entry.at_ms for entry in store.read_history(JOB, limit=1)] == [1_700]


def checkpoint(epoch: int, *, generation: int = 1) -> CheckpointNote:
    return CheckpointNote(
        generation=Generation(generation),
        epoch=Epoch(epoch),
        attempt=1,
        started_ms=0,
        acked_ms=1,
        recorded_ms=2,
        committed_ms=3,
        new_objects=1,
        new_bytes=10,
        rows_staged=5,
        final=False,
    )


def test_checkpoints_are_kept_newest_first_and_bounded(store: JobStore) -> None:
    created(store)
    lease, state = lease_of(store), get(store).state
    epochs = (1, 2, 3, CHECKPOINTS_KEPT + 2)
    for version, epoch in enumerate(epochs, start=1):
        store.save(lease, version, change_to(state, state, notes=(checkpoint(epoch),)))
    assert [note.epoch for note in store.read_checkpoints(JOB)] == [CHECKPOINTS_KEPT + 2, 3]


def test_epoch_noted_twice_is_kept_once(store: JobStore) -> None:
    created(store)
    lease, state = lease_of(store), get(store).state
    for version, generation in enumerate((1, 2), start=1):
        note = checkpoint(4, generation=generation)
        store.save(lease, version, change_to(state, state, notes=(note,)))
    assert [note.generation for note in store.read_checkpoints(JOB)] == [2]


def test_phases_of_a_recovery_are_in_the_history(store: JobStore) -> None:
    created(store)
    state = get(store).state
    phase = PhaseNote(recovery=1, phase="identify", started_ms=5, duration_ms=2.5)
    store.save(lease_of(store), 1, change_to(state, state, notes=(phase,)))
    assert [entry.phase for entry in store.read_history(JOB)] == [phase]
