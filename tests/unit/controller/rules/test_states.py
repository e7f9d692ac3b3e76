"""The rules of the job's states, each as a short story."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.controller.rules.actions import (
    AcquireSlots,
    ClaimGeneration,
    Compile,
    KillWorkers,
    MarkCommitted,
    PrepareLoad,
    ReleaseSlots,
    SendToWorker,
    StartPipeline,
    StartWorker,
)
from headgate.controller.rules.events import (
    CheckpointSuperseded,
    CleanupDone,
    Compiled,
    LoadPlanned,
    RescaleRequested,
    RestartRequested,
    SavepointRequested,
    SlotsRefused,
    StopRequested,
    TakenUp,
    WorkerDisconnected,
    WorkerExited,
    WorkersKilled,
)
from headgate.controller.rules.job_facts import Lineage
from headgate.controller.rules.limits import UNLIMITED, Limits
from headgate.controller.rules.notes import PhaseNote, SavepointNote
from headgate.controller.rules.states.failed import Failed
from headgate.controller.rules.states.failing import Failing
from headgate.controller.rules.states.recovering import Recovering
from headgate.controller.rules.states.running import Running
from headgate.controller.rules.states.scheduling import Scheduling
from headgate.controller.rules.states.stopping import Stopping
from headgate.core.checkpoint import CheckpointRef, LoadingPlan, SinkCommit
from headgate.core.errors import ErrorDomain, ErrorInfo
from headgate.core.ids import NO_GENERATION, Epoch, Generation
from headgate.core.messages import Heartbeat, Progress, SourcesFinished, Stop
from tests.unit.controller.job_under_rules import (
    STORAGE_ERROR,
    USER_ERROR,
    JobUnderRules,
    count,
    every_state,
    last_of,
)
from tests.unit.controller.support import JOB, SINK

PENDING = SinkCommit(operator=SINK, epoch=Epoch(4), staged=())
NOT_TERMINAL = sorted(
    name
    for name, world in every_state().items()
    if world.state.kind not in ("created", "stopped", "finished", "failed")
)
# The states in which a worker of the current generation is expected to be alive.
WITH_WORKER = [
    "starting",
    "restoring",
    "running",
    "collecting",
    "cleaning",
    "checkpoint_stopping",
    "finishing",
    "rescaling",
    "restarting",
]


# ---- the straight road -----------------------------------------------------------------------


def test_new_job_goes_through_every_station() -> None:
    world = JobUnderRules()
    assert [type(a) for a in world.take_up()] == [Compile]
    assert [type(a) for a in world.compiled()] == [PrepareLoad]
    assert [type(a) for a in world.load_planned()] == [AcquireSlots]
    assert [type(a) for a in world.slots_granted()] == [ClaimGeneration]
    assert [type(a) for a in world.claimed()] == [StartWorker]
    assert [type(a) for a in world.registered()] == [StartPipeline]
    world.restored()
    assert world.path == ["compiling", "scheduling", "running"]
    assert world.generation == 1


def test_finished_sources_lead_to_a_final_checkpoint_and_the_end() -> None:
    world = JobUnderRules().to_running()
    world.say(SourcesFinished(generation=world.generation))
    assert world.barrier().then_stop
    world.ack_all()
    world.recorded()
    world.published()
    assert world.state.kind == "finishing"
    world.marked()
    stop = last_of(world.actions, SendToWorker).message
    assert isinstance(stop, Stop)
    world.worker_stopped()
    assert [type(a) for a in world.killed()] == [ReleaseSlots]
    assert world.state.kind == "finished"
    assert world.facts.committed_epoch == 1


def test_checkpoint_in_flight_is_completed_before_the_final_one() -> None:
    world = JobUnderRules().to_running()
    world.say_tick(after_ms=10_000)
    assert not world.barrier().then_stop
    world.say(SourcesFinished(generation=world.generation))
    assert world.barrier().epoch == 1
    world.checkpoint()
    assert (world.barrier().epoch, world.barrier().then_stop) == (2, True)
    world.checkpoint()
    world.worker_stopped()
    world.killed()
    assert world.state.kind == "finished"


def test_worker_that_does_not_end_after_the_final_checkpoint_is_killed() -> None:
    world = JobUnderRules().to_running()
    world.say(SourcesFinished(generation=world.generation))
    world.checkpoint()
    before = count(world.actions, KillWorkers)
    world.say_tick(after_ms=world.until_deadline())
    assert count(world.actions, KillWorkers) == before + 1
    world.killed()
    assert world.state.kind == "finished"


def test_worker_lost_after_the_final_checkpoint_still_finishes() -> None:
    world = JobUnderRules().to_running()
    world.say(SourcesFinished(generation=world.generation))
    world.checkpoint()
    world.exited()
    world.killed()
    assert world.state.kind == "finished"


def test_job_that_does_not_fit_waits_for_slots_and_says_so() -> None:
    world = JobUnderRules().to_scheduling()
    world.load_planned()
    world.say(SlotsRefused(turn=world.facts.turn, reason="needs 2 slots, 1 of 4 is free"))
    assert isinstance(world.state, Scheduling)
    assert world.state.waiting == "needs 2 slots, 1 of 4 is free"
    asked = world.say_tick(after_ms=world.until_deadline())
    assert [type(a) for a in asked] == [AcquireSlots]
    assert world.facts.restarts_used == 0
    world.slots_granted()
    assert isinstance(world.state, Scheduling)
    assert world.state.waiting == ""


# ---- failure ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WITH_WORKER)
def test_worker_lost_recovers_in_every_state_that_has_one(name: str) -> None:
    world = every_state()[name]
    world.exited()
    assert isinstance(world.state, Recovering)
    assert world.state.source.code == "worker_exited"
    assert world.state.domain is ErrorDomain.EXTERNAL
    kill = last_of(world.actions, KillWorkers)
    assert kill.generation == world.generation


@pytest.mark.parametrize("name", WITH_WORKER)
def test_user_error_fails_the_job_in_every_state_that_has_a_worker(name: str) -> None:
    world = every_state()[name]
    world.task_failed(USER_ERROR)
    assert isinstance(world.state, Failing)
    world.killed()
    assert isinstance(world.state, Failed)
    assert world.state.error == USER_ERROR


@pytest.mark.parametrize("name", [n for n in WITH_WORKER if n not in ("starting", "restoring")])
def test_silent_worker_is_lost_after_the_heartbeat_timeout(name: str) -> None:
    world = every_state()[name]
    world.heartbeat()
    timeout_ms = world.limits.heartbeat_timeout_ms
    world.say_tick(after_ms=timeout_ms - 1)
    assert world.state.kind != "recovering"
    world.say_tick(after_ms=1)
    assert isinstance(world.state, Recovering)
    assert world.state.source.code == "worker_lost"


@pytest.mark.parametrize("name", ["starting", "restoring"])
def test_worker_that_never_speaks_is_lost_after_the_startup_timeout(name: str) -> None:
    world = every_state()[name]
    world.say_tick(after_ms=world.limits.worker_startup_ms - 1)
    assert world.state.kind == "scheduling"
    world.say_tick(after_ms=1)
    assert isinstance(world.state, Recovering)
    assert world.state.source.code == "worker_startup"


def test_restoring_worker_that_falls_silent_is_lost() -> None:
    world = JobUnderRules().to_restoring()
    world.heartbeat(batches=0)
    world.say_tick(after_ms=world.limits.heartbeat_timeout_ms)
    assert isinstance(world.state, Recovering)
    assert world.state.source.code == "worker_lost"


def test_restore_that_never_ends_is_given_up() -> None:
    world = JobUnderRules().to_restoring()
    for _ in range(world.limits.restore_timeout_ms // 20_000):
        world.heartbeat(batches=0)
        world.say_tick(after_ms=20_000)
    assert isinstance(world.state, Recovering)
    assert world.state.source.code == "restore_timeout"


@pytest.mark.parametrize("name", ["compiling", "scheduling", "recovering, preparing"])
def test_action_that_never_answers_is_a_failure(name: str) -> None:
    world = every_state()[name]
    world.say_tick(after_ms=world.until_deadline())
    assert isinstance(world.state, Recovering)
    assert world.facts.last_error is not None
    assert world.facts.last_error.code == "action_timeout"


@pytest.mark.parametrize(
    "name", ["recovering", "failing", "stopping by force", "restarting by force"]
)
def test_worker_that_cannot_be_killed_holds_nobody_up(name: str) -> None:
    world = every_state()[name]
    before = world.state
    world.say_tick(after_ms=world.until_deadline())
    assert world.state != before
    assert world.state.kind in ("recovering", "failed", "stopped", "compiling")


def test_lost_connection_alone_is_not_a_failure() -> None:
    world = JobUnderRules().to_running()
    world.say(WorkerDisconnected(generation=world.generation))
    assert world.state.kind == "running"
    # It comes back and is told again what it may have missed.
    world.say_tick(after_ms=10_000)
    said = world.registered()
    assert [a.message for a in said if isinstance(a, SendToWorker)] == [world.barrier()]


def test_messages_of_another_generation_change_nothing() -> None:
    world = JobUnderRules().to_running()
    before = world.state
    for other in (0, 2):
        generation = Generation(other)
        world.say(WorkerExited(generation=generation))
        world.say(SourcesFinished(generation=generation))
        world.say(Heartbeat(generation=generation, progress=Progress()))
    assert world.state == before


def test_waiting_for_a_full_cluster_is_no_failure_and_takes_no_time_of_the_restore() -> None:
    world = JobUnderRules().to_restoring()
    restore_ms = world.facts.limits.restore_timeout_ms
    silence_ms = world.facts.limits.heartbeat_timeout_ms // 2

    def beats(milliseconds: int, progress: Progress) -> None:
        for _ in range(milliseconds // silence_ms + 1):
            world.say_tick(after_ms=silence_ms)
            world.say(Heartbeat(generation=world.generation, progress=progress))

    beats(3 * restore_ms, Progress(waiting_for="Spark's executors: none yet"))
    assert world.state.kind == "scheduling"
    assert world.facts.restarts_used == 0
    beats(restore_ms, Progress())
    assert isinstance(world.state, Recovering)
    assert "did not restore within" in world.state.reason


def test_results_of_an_earlier_turn_change_nothing() -> None:
    world = JobUnderRules().to_compiling()
    old_turn = world.facts.turn
    world.compiled()
    before = world.state
    world.say(Compiled(turn=old_turn, needs=(), fingerprint="other"))
    assert world.state == before


def test_load_that_was_prepared_before_a_rescale_is_not_taken() -> None:
    world = every_state()["recovering, preparing"]
    asked = last_of(world.actions, PrepareLoad)
    world.say(RescaleRequested(parallelism=4))
    before = world.state
    plan = LoadingPlan(job=JOB, parallelism=asked.parallelism)
    world.say(LoadPlanned(turn=asked.turn, plan=plan, lineage=Lineage()))
    assert world.state == before
    world.load_planned()
    assert world.state.kind == "compiling"


def test_end_of_an_earlier_kill_is_not_the_end_of_this_one() -> None:
    world = JobUnderRules().to_recovering()
    earlier = last_of(world.actions, KillWorkers)
    world.say(StopRequested(mode="force"))
    world.say(WorkersKilled(turn=earlier.turn))
    assert world.state.kind == "stopping"
    world.killed()
    assert world.state.kind == "stopped"


def test_recovering_keeps_the_first_error_while_recoveries_fail() -> None:
    world = JobUnderRules().to_recovering()
    world.killed()
    world.say_tick(after_ms=world.until_deadline())
    world.action_failed(STORAGE_ERROR)
    assert isinstance(world.state, Recovering)
    assert world.state.source.code == "worker_exited"
    assert world.state.reason == STORAGE_ERROR.message
    assert world.facts.restarts_used == 2


def test_backoff_is_waited_out_before_storage_is_asked() -> None:
    world = JobUnderRules(limits=Limits(backoff_initial_ms=10_000)).to_recovering()
    assert world.killed() == []
    assert isinstance(world.state, Recovering)
    wait_ms = world.until_deadline()
    assert 5_000 <= wait_ms <= 10_000
    assert world.say_tick(after_ms=wait_ms - 1) == []
    assert [type(a) for a in world.say_tick(after_ms=1)] == [PrepareLoad]


def test_restart_budget_is_spent_then_the_job_fails_with_the_last_error() -> None:
    world = JobUnderRules(limits=Limits(restarts_max=3, backoff_initial_ms=1)).to_running()
    for _ in range(3):
        world.exited()
        world.to_running_again()
    world.exited()
    assert isinstance(world.state, Failing)
    assert "gave up after 3 restarts" in world.state.error.message
    assert "exit code -9" in world.state.error.message


def test_unlimited_budget_is_never_spent() -> None:
    world = JobUnderRules(limits=Limits(restarts_max=UNLIMITED, backoff_initial_ms=1)).to_running()
    for _ in range(50):
        world.exited()
        world.to_running_again()
    assert world.state.kind == "running"


def defect(message: str, domain: ErrorDomain = ErrorDomain.INTERNAL) -> ErrorInfo:
    return ErrorInfo(message=message, domain=domain, code="unexpected")


def test_same_defect_before_the_first_checkpoint_is_given_up_early() -> None:
    world = JobUnderRules(limits=Limits(backoff_initial_ms=1)).to_running()
    for attempt in (1, 2):
        world.task_failed(defect(f"NullPointerException at 0x7f{attempt}"))
        world.to_running_again()
    world.task_failed(defect("NullPointerException at 0x7f3"))
    assert isinstance(world.state, Failing)
    assert "3 times in the same way" in world.state.error.message
    assert "NullPointerException" in world.state.error.message


@pytest.mark.parametrize("what", ["after a checkpoint", "different", "external", "unlimited"])
def test_defect_that_may_pass_is_not_given_up_early(what: str) -> None:
    restarts_max = UNLIMITED if what == "unlimited" else 20
    world = JobUnderRules(
        limits=Limits(backoff_initial_ms=1, restarts_max=restarts_max)
    ).to_running()
    for attempt in range(6):
        if what == "after a checkpoint":
            world.state = replace(world.state, facts=replace(world.facts, last_epoch=Epoch(1)))
        domain = ErrorDomain.EXTERNAL if what == "external" else ErrorDomain.INTERNAL
        message = "broken" + "!" * attempt if what == "different" else "broken"
        world.task_failed(defect(message, domain))
        world.to_running_again()
    assert world.state.kind == "running"


@pytest.mark.parametrize("state", ["recovering, preparing", "scheduling"])
def test_epoch_that_storage_has_forgotten_is_not_taken_again(state: str) -> None:
    world = every_state()[state]
    world.state = replace(world.state, facts=replace(world.facts, last_epoch=Epoch(7)))
    world.load_planned(CheckpointRef(generation=Generation(1), epoch=Epoch(6)))
    assert isinstance(world.state, Failing)
    assert world.state.error.code == "records_lost"
    assert "epoch 7" in world.state.error.message


def test_restart_without_state_goes_on_although_storage_has_forgotten_an_epoch() -> None:
    world = every_state()["scheduling"]
    facts = replace(world.facts, last_epoch=Epoch(7), ignore_through=Epoch(7))
    world.state = replace(world.state, facts=facts)
    world.load_planned(CheckpointRef(generation=Generation(1), epoch=Epoch(6)))
    assert world.state.kind == "scheduling"


def test_healthy_run_gets_the_whole_budget_back() -> None:
    limits = Limits(restarts_max=1, backoff_initial_ms=1, checkpoint_interval_ms=10_000_000)
    world = JobUnderRules(limits=limits).to_running()
    world.exited()
    world.to_running_again()
    assert world.facts.restarts_used == 1
    for _ in range(limits.healthy_ms // 20_000):
        world.now_ms += 20_000
        world.heartbeat()
    assert world.facts.restarts_used == 0
    world.exited()
    assert world.state.kind == "recovering"


def test_run_that_was_not_healthy_long_enough_keeps_its_count() -> None:
    limits = Limits(restarts_max=1, backoff_initial_ms=1, checkpoint_interval_ms=10_000_000)
    world = JobUnderRules(limits=limits).to_running()
    world.exited()
    world.to_running_again()
    for _ in range(limits.healthy_ms // 20_000 - 1):
        world.now_ms += 20_000
        world.heartbeat()
    world.exited()
    assert world.state.kind == "failing"


def test_recovery_goes_by_way_of_compiling_and_scheduling() -> None:
    world = JobUnderRules().to_recovering()
    world.path.clear()
    world.to_running_again()
    assert world.path == ["compiling", "scheduling", "running"]
    assert world.generation == 2


def test_recovery_times_its_five_phases() -> None:
    world = JobUnderRules().to_recovering()
    world.to_running_again()
    world.now_ms += 7
    world.heartbeat(batches=1)
    phases = [note for note in world.notes if isinstance(note, PhaseNote)]
    names = [note.phase for note in phases]
    assert names == ["identify", "prepare", "restart_workers", "restore", "resume"]
    assert [note.duration_ms for note in phases][:2] == [1.0, 2.0]
    assert phases[-1].duration_ms == 7
    assert {note.recovery for note in phases} == {1}
    assert world.facts.recovery is None


def test_load_prepared_for_another_graph_is_prepared_again() -> None:
    world = JobUnderRules().to_recovering()
    world.killed()
    world.say_tick(after_ms=world.until_deadline())
    world.load_planned()
    asked = world.say(Compiled(turn=world.facts.turn, needs=(), fingerprint="changed"))
    assert [type(a) for a in asked] == [PrepareLoad]


def test_pending_publishes_get_their_marker_once_the_worker_has_restored() -> None:
    world = JobUnderRules().to_scheduling()
    world.load_planned(CheckpointRef(generation=Generation(3), epoch=Epoch(4)), (PENDING,))
    world.slots_granted()
    world.claimed(4)
    world.registered()
    assert count(world.actions, MarkCommitted) == 0
    world.restored()
    mark = last_of(world.actions, MarkCommitted)
    assert (mark.epoch, mark.inherited) == (4, True)
    world.say_tick(after_ms=10_000)
    assert world.barrier().epoch == 5


# ---- another controller ----------------------------------------------------------------------


def superseded(world: JobUnderRules, *, fence: int, claimant: str) -> None:
    world.say_tick(after_ms=10_000)
    world.ack_all()
    world.say(
        CheckpointSuperseded(
            generation=world.generation,
            epoch=Epoch(1),
            attempt=1,
            fence=Generation(fence),
            claimant=claimant,
        )
    )


def test_epoch_taken_by_an_older_generation_recovers() -> None:
    world = JobUnderRules().to_running()
    superseded(world, fence=1, claimant="db/1/controller/3")
    assert isinstance(world.state, Recovering)
    assert world.state.source.code == "epoch_taken"


def test_generation_of_a_controller_that_lost_the_lease_is_claimed_back() -> None:
    world = JobUnderRules()
    world.say(TakenUp(claimant="db/7/us"))
    world.compiled()
    world.load_planned()
    world.slots_granted()
    world.claimed()
    world.registered()
    world.restored()
    superseded(world, fence=2, claimant="db/6/them/9")
    assert isinstance(world.state, Recovering)


@pytest.mark.parametrize("claimant", ["other/3/them/1", "db/9/them/1", ""])
def test_job_is_let_go_where_a_stranger_or_a_later_lease_took_it(claimant: str) -> None:
    world = JobUnderRules().to_running()
    superseded(world, fence=2, claimant=claimant)
    assert isinstance(world.state, Failing)
    assert world.state.error.code == "superseded"


@pytest.mark.parametrize("name", NOT_TERMINAL)
def test_every_job_is_taken_up_again_after_a_controller_restart(name: str) -> None:
    world = every_state()[name]
    restarts = world.facts.restarts_used
    actions = world.take_up()
    assert world.facts.restarts_used == restarts
    assert world.facts.cleaning_since_ms is None
    assert actions, "nothing would ever happen again"
    assert world.state.kind in (
        "compiling",
        "recovering",
        "stopping",
        "finishing",
        "failing",
    )


@pytest.mark.parametrize("name", ["stopped", "finished", "failed"])
def test_terminal_job_stays_as_it_is_after_a_controller_restart(name: str) -> None:
    world = every_state()[name]
    assert world.take_up() == []
    assert world.state.kind == name


def test_finished_but_for_the_worker_finishes_after_a_controller_restart() -> None:
    world = every_state()["finishing, ending the worker"]
    world.take_up()
    world.killed()
    assert world.state.kind == "finished"


# ---- stopping --------------------------------------------------------------------------------


def test_stop_with_checkpoint_publishes_then_stops() -> None:
    world = JobUnderRules().to_running()
    world.say(StopRequested(mode="checkpoint"))
    assert world.barrier().then_stop
    world.checkpoint()
    world.worker_stopped()
    world.killed()
    assert world.state.kind == "stopped"
    assert world.facts.committed_epoch == 1


def test_worker_lost_during_final_checkpoint_recovers_and_then_stops() -> None:
    world = JobUnderRules().to_running()
    world.say(StopRequested(mode="checkpoint"))
    world.ack_all()
    world.exited()
    assert world.state.kind == "recovering"
    world.killed()
    world.say_tick(after_ms=world.until_deadline())
    # The record may have been written: its publish is pending, so a worker is needed once more.
    world.load_planned(CheckpointRef(generation=Generation(1), epoch=Epoch(4)), (PENDING,))
    world.compiled()
    world.slots_granted()
    world.claimed()
    world.registered()
    world.restored()
    assert world.state.kind == "checkpoint_stopping"
    world.checkpoint()
    world.worker_stopped()
    world.killed()
    assert world.state.kind == "stopped"


def test_stop_with_checkpoint_while_recovering_needs_no_worker_if_all_is_published() -> None:
    world = JobUnderRules().to_recovering()
    world.say(StopRequested(mode="checkpoint"))
    world.killed()
    world.say_tick(after_ms=world.until_deadline())
    world.load_planned(CheckpointRef(generation=Generation(1), epoch=Epoch(4)))
    assert isinstance(world.state, Stopping)
    world.killed()
    assert world.state.kind == "stopped"
    assert count(world.actions, StartWorker) == 1


@pytest.mark.parametrize(("mode", "patience_ms"), [("graceful", 60_000), ("immediate", 5_000)])
def test_stop_without_checkpoint_tells_the_worker_and_waits(mode: str, patience_ms: int) -> None:
    world = JobUnderRules().to_running()
    world.say(StopRequested(mode=mode))  # type: ignore[arg-type]
    stop = last_of(world.actions, SendToWorker).message
    assert isinstance(stop, Stop)
    assert world.until_deadline() == patience_ms
    assert count(world.actions, KillWorkers) == 0
    world.worker_stopped()
    world.killed()
    assert world.state.kind == "stopped"


def test_stop_by_force_kills_at_once() -> None:
    world = JobUnderRules().to_running()
    assert [type(a) for a in world.say(StopRequested(mode="force"))] == [KillWorkers]
    world.killed()
    assert world.state.kind == "stopped"


@pytest.mark.parametrize("mode", ["immediate", "force"])
@pytest.mark.parametrize("name", NOT_TERMINAL)
def test_job_can_be_stopped_at_once_from_anywhere(name: str, mode: str) -> None:
    world = every_state()[name]
    world.say(StopRequested(mode=mode))  # type: ignore[arg-type]
    for _ in range(4):
        if world.state.kind in ("stopped", "finished", "failed"):
            break
        world.say_tick(after_ms=world.until_deadline())
    expected = {"failing": "failed", "finishing, ending the worker": "finished"}
    assert world.state.kind == expected.get(name, "stopped")


def test_impatient_second_stop_cuts_the_final_checkpoint_short() -> None:
    world = JobUnderRules().to_running()
    world.say(StopRequested(mode="checkpoint"))
    world.say(StopRequested(mode="immediate"))
    assert world.state.kind == "stopping"


# ---- restart and rescale ---------------------------------------------------------------------


def test_safe_restart_takes_a_final_checkpoint_first() -> None:
    world = JobUnderRules().to_running()
    world.say(RestartRequested(mode="safe"))
    assert world.barrier().then_stop
    world.checkpoint()
    world.worker_stopped()
    world.killed()
    assert world.state.kind == "compiling"


def test_forced_restart_does_without() -> None:
    world = JobUnderRules().to_running()
    assert [type(a) for a in world.say(RestartRequested(mode="forced"))] == [KillWorkers]
    world.killed()
    assert world.state.kind == "compiling"


def test_restart_ignoring_state_ignores_only_what_was_there_before() -> None:
    world = JobUnderRules().to_running()
    world.say(RestartRequested(mode="ignore_state"))
    world.killed()
    world.compiled()
    asked = last_of(world.actions, PrepareLoad)
    assert (asked.ignore_before, asked.ignore_all) == (2, False)
    world.load_planned()
    world.slots_granted()
    world.claimed()
    assert world.generation == 2


def test_restart_ignoring_state_before_the_first_claim_ignores_all_that_is_there() -> None:
    """After the loss of a database: there are checkpoints, of generations it does not know."""
    world = JobUnderRules()
    world.take_up()
    world.compiled()
    world.say(RestartRequested(mode="ignore_state"))
    world.killed()
    world.compiled()
    assert last_of(world.actions, PrepareLoad).ignore_all
    world.load_planned()
    world.slots_granted()
    world.claimed()
    # From here on it is the store that remembers it, with the generation.
    world.exited()
    world.killed()
    world.say_tick(after_ms=60_000)
    assert not last_of(world.actions, PrepareLoad).ignore_all


def test_restart_ignoring_state_while_starting_ignores_every_epoch_that_the_load_found() -> None:
    """No worker has restored yet; the record of the newest epoch may be lost at any time."""
    world = JobUnderRules()
    world.take_up()
    world.compiled()
    asked = last_of(world.actions, PrepareLoad)
    newest = CheckpointRef(generation=Generation(4), epoch=Epoch(9))
    world.say(
        LoadPlanned(
            turn=asked.turn,
            plan=LoadingPlan(job=JOB, parallelism=2),
            lineage=Lineage(previous=newest),
            ignore_before=Generation(5),
            ignore_through=Epoch(7),
        )
    )
    assert (world.facts.last_epoch, world.facts.ignore_through) == (9, 7)
    # A failure before the claim is no wish to begin anew.
    assert world.facts.ignore_before == NO_GENERATION
    world.say(RestartRequested(mode="ignore_state"))
    world.killed()
    world.compiled()
    assert last_of(world.actions, PrepareLoad).ignore_through == 9


def test_claim_hands_on_what_the_load_ignores() -> None:
    world = JobUnderRules()
    world.take_up()
    world.compiled()
    asked = last_of(world.actions, PrepareLoad)
    plan = LoadingPlan(job=JOB, parallelism=2)
    ignoring = LoadPlanned(
        turn=asked.turn,
        plan=plan,
        lineage=Lineage(),
        ignore_before=Generation(6),
        ignore_through=Epoch(4),
    )
    world.say(ignoring)
    world.slots_granted()
    claim = last_of(world.actions, ClaimGeneration)
    assert (claim.ignore_before, claim.ignore_through) == (6, 4)


@pytest.mark.parametrize("name", ["stopped", "finished", "failed", "failing"])
@pytest.mark.parametrize("mode", ["safe", "forced", "ignore_state"])
def test_job_that_has_ended_can_be_started_again(name: str, mode: str) -> None:
    world = every_state()[name]
    world.say(RestartRequested(mode=mode, parallelism=5))  # type: ignore[arg-type]
    world.killed()
    assert world.state.kind == "compiling"
    assert world.facts.parallelism == 5
    assert world.facts.restarts_used == 0


def test_restart_takes_back_a_stop_that_is_under_way() -> None:
    world = JobUnderRules().to_running()
    world.say(StopRequested(mode="checkpoint"))
    world.say(RestartRequested(mode="safe"))
    assert world.state.kind == "restarting"
    world.checkpoint()
    world.worker_stopped()
    world.killed()
    world.compiled()
    world.load_planned()
    world.slots_granted()
    world.claimed()
    world.registered()
    world.restored()
    assert world.state.kind == "running"


def test_restart_while_recovering_does_not_wait() -> None:
    world = JobUnderRules(limits=Limits(backoff_initial_ms=60_000)).to_recovering()
    world.killed()
    assert [type(a) for a in world.say(RestartRequested(mode="safe"))] == [PrepareLoad]
    assert world.facts.restarts_used == 0


def test_rescale_checkpoints_at_the_old_parallelism_and_starts_at_the_new() -> None:
    world = JobUnderRules(parallelism=2).to_running()
    world.say(RescaleRequested(parallelism=3))
    world.checkpoint()  # acknowledged by the two old subtasks
    world.worker_stopped()
    world.killed()
    assert world.state.kind == "scheduling"
    assert last_of(world.actions, PrepareLoad).parallelism == 3
    assert world.generation == 1


def test_worker_lost_while_rescaling_recovers_at_the_new_parallelism() -> None:
    world = JobUnderRules(parallelism=2).to_running()
    world.say(RescaleRequested(parallelism=3))
    world.exited()
    assert world.state.kind == "recovering"
    world.killed()
    world.say_tick(after_ms=world.until_deadline())
    assert last_of(world.actions, PrepareLoad).parallelism == 3


def test_rescale_to_the_same_parallelism_does_nothing() -> None:
    world = JobUnderRules(parallelism=2).to_running()
    assert world.say(RescaleRequested(parallelism=2)) == []
    assert world.state.kind == "running"


def test_rescale_while_the_load_is_prepared_prepares_again() -> None:
    world = every_state()["recovering, preparing"]
    turn = world.facts.turn
    asked = world.say(RescaleRequested(parallelism=4))
    assert [type(a) for a in asked] == [PrepareLoad]
    assert world.facts.turn > turn


# ---- what people asked for is answered -------------------------------------------------------


@pytest.mark.parametrize("name", ["compiling", "recovering", "stopped", "failing"])
def test_savepoint_of_a_job_that_does_not_run_is_refused_with_a_reason(name: str) -> None:
    world = every_state()[name]
    world.say(SavepointRequested(name="before-upgrade"))
    note = world.notes[-1]
    assert isinstance(note, SavepointNote)
    assert note.failure is not None
    assert "running" in note.failure


@pytest.mark.parametrize("end", ["exit", "stop", "restart"])
def test_savepoint_that_cannot_be_completed_is_answered(end: str) -> None:
    world = JobUnderRules().to_running()
    world.say(SavepointRequested(name="a"))
    if end == "exit":
        world.exited()
    elif end == "stop":
        world.say(StopRequested(mode="force"))
    else:
        world.say(RestartRequested(mode="forced"))
    answers = [n for n in world.notes if isinstance(n, SavepointNote)]
    assert [(n.name, n.failure is not None) for n in answers] == [("a", True)]


def test_cleanup_that_ends_in_another_state_is_noted_there() -> None:
    world = every_state()["cleaning"]
    world.exited()
    assert world.facts.cleaning_since_ms is not None
    world.say(CleanupDone(objects_deleted=3))
    assert world.facts.cleaning_since_ms is None
    assert isinstance(world.state, Recovering)


def test_running_job_has_no_checkpoint_while_an_older_cleanup_still_runs() -> None:
    world = every_state()["cleaning"]
    world.exited()
    world.to_running_again()
    barriers = count(world.actions, SendToWorker)
    world.now_ms += 20_000
    world.heartbeat()
    assert isinstance(world.state, Running)
    assert count(world.actions, SendToWorker) == barriers
    world.say(CleanupDone())
    assert count(world.actions, SendToWorker) == barriers + 1
