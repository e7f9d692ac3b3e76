"""Over any sequence of rescales and drops every row goes to exactly one subtask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.checkpoint import HashFilter, RunRef, SubtaskLoad, TableState
from headgate.core.errors import CheckpointInvalid, UserError
from headgate.core.ids import Epoch, Generation, JobId, OperatorId, Subtask
from headgate.state.protocol.records import OperatorCheckpointMetadata, SubtaskState
from headgate.state.recovery import loading
from headgate.state.recovery.loading import in_order, is_empty, plan_subtasks

HASH = st.integers(-(2**31), 2**31 - 1) | st.integers(-20, 20)
OPERATOR = OperatorId("op")


def metadata(tables: Sequence[tuple[TableState, ...]]) -> OperatorCheckpointMetadata:
    return OperatorCheckpointMetadata(
        job=JobId("job_1"),
        generation=Generation(1),
        epoch=Epoch(1),
        attempt=1,
        operator=OPERATOR,
        kind="process",
        parallelism=len(tables),
        watermark=0,
        subtasks=tuple(
            SubtaskState(subtask=Subtask(number), tables=own) for number, own in enumerate(tables)
        ),
    )


def loads(tables: Sequence[tuple[TableState, ...]], parallelism: int) -> list[SubtaskLoad]:
    return list(plan_subtasks({OPERATOR: metadata(tables)}, parallelism))


def passes(row_hash: int, filters: tuple[HashFilter, ...]) -> bool:
    return all(row_hash % item.parallelism == item.subtask for item in filters)


def make_run(path: str, rows: list[int], epoch: int = 1, *, ranges: bool = True) -> RunRef:
    return RunRef(
        path=path,
        bytes=1,
        checksum="",
        rows=len(rows),
        min_hash=min(rows) if rows and ranges else None,
        max_hash=max(rows) if rows and ranges else None,
        first_epoch=Epoch(epoch),
        last_epoch=Epoch(epoch),
    )


@dataclass
class Model:
    """A job's table, in which each subtask sees files through filters, and a set of true rows.

    A row is (file, number in the file): equal hashes are different rows.
    """

    parallelism: int
    files: dict[str, list[int]]
    views: list[list[RunRef]]
    owner: dict[tuple[str, int], int]

    def rows_seen(self, subtask: int) -> list[tuple[str, int]]:
        return [
            (run.path, number)
            for run in self.views[subtask]
            for number, row_hash in enumerate(self.files[run.path])
            if passes(row_hash, run.filters)
        ]

    def write(self, hashes: list[int], epoch: int, ranges: bool) -> None:
        for subtask in range(self.parallelism):
            own = [h for h in hashes if h % self.parallelism == subtask]
            path = f"run-{epoch:03}-{subtask}"
            self.files[path] = own
            self.views[subtask].append(make_run(path, own, epoch, ranges=ranges))
            self.owner.update(((path, number), subtask) for number in range(len(own)))

    def drop(self, subtask: int, index: int) -> None:
        """The subtask forgets its part of one file, as compaction does."""
        view = self.views[subtask % self.parallelism]
        if not view:
            return
        path = view[index % len(view)].path
        before = self.rows_seen(subtask % self.parallelism)
        view[:] = [run for run in view if run.path != path]
        for row in before:
            if row[0] == path:
                del self.owner[row]

    def rescale(self, parallelism: int) -> None:
        tables = [
            (TableState(name="t", kind="keyed", schema="s", runs=tuple(view)),)
            for view in self.views
        ]
        self.views = [list(load.tables[0].runs) for load in loads(tables, parallelism)]
        self.parallelism = parallelism
        self.owner = {
            (path, number): self.files[path][number] % parallelism for path, number in self.owner
        }

    def check(self) -> None:
        seen: dict[tuple[str, int], int] = {}
        for subtask in range(self.parallelism):
            rows = self.rows_seen(subtask)
            assert len(rows) == len(set(rows)), "a row twice in one subtask"
            for row in rows:
                assert row not in seen, "a row in two subtasks"
                seen[row] = subtask
        assert seen == self.owner


STEP = st.one_of(
    st.tuples(st.just("write"), st.lists(HASH, max_size=12), st.booleans()),
    st.tuples(st.just("drop"), st.integers(0, 11), st.integers(0, 11)),
    st.tuples(st.just("rescale"), st.integers(1, 12), st.none()),
)


@settings(max_examples=400, deadline=None)
@given(parallelism=st.integers(1, 8), steps=st.lists(STEP, max_size=14))
def test_every_row_goes_to_exactly_one_subtask(
    parallelism: int, steps: list[tuple[str, object, object]]
) -> None:
    model = Model(parallelism, {}, [[] for _ in range(parallelism)], {})
    for epoch, step in enumerate(steps, start=1):
        match step:
            case ("write", list(hashes), bool(ranges)):
                model.write(hashes, epoch, ranges)
            case ("drop", int(subtask), int(index)):
                model.drop(subtask, index)
            case ("rescale", int(parallelism), None):
                model.rescale(parallelism)
        model.check()


@settings(max_examples=200, deadline=None)
@given(
    hashes=st.lists(HASH, min_size=1, max_size=12),
    path=st.lists(st.integers(1, 16), min_size=1, max_size=6),
)
def test_rescales_alone_never_lengthen_the_filters(hashes: list[int], path: list[int]) -> None:
    model = Model(2, {}, [[], []], {})
    model.write(hashes, 1, True)
    for parallelism in path:
        model.rescale(parallelism)
        for view in model.views:
            assert len({run.path for run in view}) == len(view)
            assert all(len(run.filters) <= 1 for run in view)


def test_the_same_parallelism_keeps_references_as_they_are_in_order() -> None:
    filtered = replace(
        make_run("b", [1], 2), filters=(HashFilter(parallelism=3, subtask=Subtask(1)),)
    )
    table = TableState(
        name="t",
        kind="time",
        schema="s",
        runs=(make_run("c", [1], 2), filtered, make_run("z", [1])),
    )
    (load,) = loads([(table,)], 1)
    assert [run.path for run in load.tables[0].runs] == ["z", "b", "c"]
    assert load.tables[0].runs[1] == filtered
    assert load.tables[0].schema == "s"


def test_a_larger_parallelism_gives_every_run_to_every_subtask_that_can_own_rows() -> None:
    table = TableState(name="t", kind="keyed", schema="s", runs=(make_run("a", [0, 99]),))
    split = loads([(table,)], 4)
    assert [load.subtask for load in split] == [0, 1, 2, 3]
    for load in split:
        (run,) = load.tables[0].runs
        assert run.filters == (HashFilter(parallelism=4, subtask=load.subtask),)


def test_a_part_that_cannot_hold_rows_is_left_out() -> None:
    table = TableState(name="t", kind="keyed", schema="s", runs=(make_run("a", [6, 7]),))
    assert [len(load.tables[0].runs) for load in loads([(table,)], 4)] == [0, 0, 1, 1]
    unknown = TableState(
        name="t", kind="keyed", schema="s", runs=(make_run("a", [6, 7], ranges=False),)
    )
    assert [len(load.tables[0].runs) for load in loads([(unknown,)], 4)] == [1, 1, 1, 1]


def test_a_table_without_runs_is_still_handed_over() -> None:
    table = TableState(name="t", kind="keyed", schema="s")
    assert all(load.tables == (table,) for load in loads([(table,), (table,)], 3))


def test_an_operator_without_tables_loads_nothing() -> None:
    assert loads([(), ()], 3) == []


def test_two_owners_of_the_same_rows_are_an_inconsistent_checkpoint() -> None:
    table = TableState(name="t", kind="keyed", schema="s", runs=(make_run("a", [0, 99]),))
    with pytest.raises(CheckpointInvalid) as caught:
        loads([(table,), (table,)], 3)
    assert caught.value.code == "inconsistent"


def test_a_table_of_two_kinds_is_an_inconsistent_checkpoint() -> None:
    one = TableState(name="t", kind="keyed", schema="s")
    with pytest.raises(CheckpointInvalid) as caught:
        loads([(one,), (replace(one, kind="time"),)], 3)
    assert caught.value.code == "inconsistent"


@given(
    low=HASH,
    width=st.integers(0, 60),
    filters=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 8)), max_size=4),
)
def test_a_run_is_called_empty_only_if_no_hash_in_its_range_passes(
    low: int, width: int, filters: list[tuple[int, int]]
) -> None:
    items = tuple(HashFilter(parallelism=p, subtask=Subtask(s % p)) for p, s in filters)
    run = make_run("a", [low, low + width])
    assert is_empty(run, items) == (not any(passes(h, items) for h in range(low, low + width + 1)))


def test_newer_runs_come_last() -> None:
    runs = [make_run("b", [1], 2), make_run("c", [1], 1), make_run("a", [1], 3)]
    assert [run.path for run in in_order(runs)] == ["c", "b", "a"]


# ---- the cost: as many references as must be, and no more looks than references ----------------


class Looks:
    """Counts how often a part of a run is looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = loading.is_empty

        def counted(run: RunRef, filters: tuple[HashFilter, ...]) -> bool:
            self.count += 1
            return real(run, filters)

        monkeypatch.setattr(loading, "is_empty", counted)


def large(subtasks: int) -> Model:
    """A job whose every subtask has one run, with hashes of its own."""
    model = Model(subtasks, {}, [[] for _ in range(subtasks)], {})
    model.write(list(range(-3 * subtasks, 3 * subtasks)), 1, True)
    return model


@pytest.mark.parametrize(
    ("after", "parts"), [(200, 2), (120, 6), (50, 1), (80, 4), (100, 1), (20, 1)]
)
def test_a_run_is_divided_among_those_with_its_remainder(after: int, parts: int) -> None:
    model = large(100)
    model.rescale(after)
    model.check()
    assert sum(len(view) for view in model.views) == 100 * parts


def test_dividing_looks_at_no_more_parts_than_it_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    for subtasks in (20, 200):
        model, counted = large(subtasks), Looks(monkeypatch)
        model.rescale(2 * subtasks)
        model.rescale(subtasks)
        monkeypatch.undo()
        model.check()
        looks.append(counted.count)
    assert looks[1] <= 10 * looks[0]
    assert looks[1] <= 200 * 6


def test_the_parts_of_two_divisions_are_compared_by_their_remainders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Runs whose writers are not known go to everybody, twice: many parts of each."""
    run = make_run("a", [-1000, 1000])
    parts = [
        replace(
            run,
            filters=(
                HashFilter(parallelism=8, subtask=Subtask(one)),
                HashFilter(parallelism=9, subtask=Subtask(other)),
            ),
        )
        for one in range(8)
        for other in range(9)
    ]
    tables = [
        (TableState(name="t", kind="keyed", schema="s", runs=tuple(parts[n::12])),)
        for n in range(12)
    ]
    counted = Looks(monkeypatch)
    divided = loads(tables, 5)
    # Each part goes to five; pairs of them would be 2,556.
    assert counted.count <= 72 * 5
    monkeypatch.undo()
    for row_hash in range(-1000, 1001):
        owners = [
            load.subtask
            for load in divided
            for part in load.tables[0].runs
            if passes(row_hash, part.filters)
        ]
        assert owners == [row_hash % 5]


def test_a_run_with_hashes_of_others_is_divided_among_all() -> None:
    """Whoever wrote it, nothing of it may be lost."""
    stranger = TableState(name="t", kind="keyed", schema="s", runs=(make_run("a", [0, 99]),))
    none = TableState(name="t", kind="keyed", schema="s")
    split = loads([(stranger,), (none,)], 4)
    assert [len(load.tables[0].runs) for load in split] == [1, 1, 1, 1]
    assert all(run.written_by is None for load in split for run in load.tables[0].runs)


def test_too_many_parts_are_refused_with_numbers_that_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loading, "REFERENCES_MAX", 500)
    model = large(100)
    with pytest.raises(UserError) as caught:
        model.rescale(101)
    assert caught.value.code == "rescale_too_wide"
    assert "10,100 parts" in caught.value.message
    assert "50 or 75 or 125 or 150 or 200" in caught.value.message
    model.rescale(125)
    model.check()
