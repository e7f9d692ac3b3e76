"""Which files have been read: every file once, late ones included, in a position that stays small.

The folder is a model: files appear with any times, some go away, the worker restarts at will.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.connectors.filesystem.position import (
    CutFile,
    FilePosition,
    ReadFiles,
    file_key,
    take_files,
)
from headgate.core.ports import ObjectInfo


def info(path: str, modified_us: int, size: int = 10) -> ObjectInfo:
    return ObjectInfo(path=path, bytes=size, modified_us=modified_us)


@dataclass
class World:
    """A folder, and a source that reads `per_cut` files at a time."""

    remember: int
    per_cut: int = 1
    folder: dict[str, ObjectInfo] = field(default_factory=dict)
    position: FilePosition = field(default_factory=FilePosition)
    worker: ReadFiles = field(default_factory=ReadFiles)
    read: list[str] = field(default_factory=list)

    def cut(self) -> bool:
        listing = list(self.folder.values())
        unread = self.worker.unread(self.position, listing)
        taken, _ = take_files(unread, self.per_cut, lambda _: 1)
        if not taken:
            return False
        files = [CutFile(path=f.path, bytes=f.bytes) for f in taken]
        end = self.worker.advance(self.position, files, listing, self.remember)
        # What a checkpoint does to it.
        self.position = FilePosition.parse(end.dump())
        self.read += [f.path for f in end.files]
        return True

    def drain(self) -> None:
        for _ in range(1_000):
            if not self.cut():
                return
        raise AssertionError("never drained")

    def restart(self) -> None:
        self.worker = ReadFiles()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 50)),
        st.tuples(st.just("cut"), st.just(0)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("remove"), st.integers(0, 100)),
    ),
    max_size=60,
)


@settings(deadline=None)
@given(steps=STEPS, per_cut=st.integers(1, 4))
def test_with_room_to_remember_every_file_is_read_exactly_once(
    steps: list[tuple[str, int]], per_cut: int
) -> None:
    world = World(remember=1_000, per_cut=per_cut)
    wanted: set[str] = set()
    for number, (what, value) in enumerate(steps):
        if what == "add":
            # Any time: older than files already read, or equal to one of them.
            path = f"{value % 7}/{number}"
            world.folder[path] = info(path, value)
            wanted.add(path)
        elif what == "cut":
            world.cut()
        elif what == "restart":
            world.restart()
        elif world.folder:
            path = sorted(world.folder)[value % len(world.folder)]
            del world.folder[path]
            if path not in world.read:
                wanted.discard(path)
    world.drain()
    assert sorted(world.read) == sorted(wanted)


@settings(deadline=None)
@given(steps=STEPS, per_cut=st.integers(1, 4), remember=st.integers(1, 5))
def test_a_full_memory_never_reads_twice_and_misses_nothing_while_the_worker_lives(
    steps: list[tuple[str, int]], per_cut: int, remember: int
) -> None:
    world = World(remember=remember, per_cut=per_cut)
    wanted: set[str] = set()
    for number, (what, value) in enumerate(steps):
        if what == "add":
            path = f"{value % 7}/{number}"
            world.folder[path] = info(path, value)
            wanted.add(path)
            # Found while the worker runs, so a restart cannot come in between.
            world.worker.unread(world.position, world.folder.values())
        elif what == "cut":
            world.cut()
        elif what == "restart":
            world.drain()
            world.restart()
            world.worker.unread(world.position, world.folder.values())
    world.drain()
    assert len(world.read) == len(set(world.read))
    assert set(world.read) == wanted


@settings(deadline=None)
@given(
    times=st.lists(st.integers(0, 1_000), min_size=1, max_size=80),
    remember=st.integers(1, 10),
    restarts=st.sets(st.integers(0, 80)),
)
def test_a_backlog_survives_restarts_between_any_two_cuts(
    times: list[int], remember: int, restarts: set[int]
) -> None:
    world = World(remember=remember, per_cut=3)
    world.folder = {f"f{i}": info(f"f{i}", t) for i, t in enumerate(times)}
    for turn in range(200):
        if turn in restarts:
            world.restart()
        if not world.cut():
            break
    in_order = sorted(world.folder.values(), key=file_key)
    assert world.read == [f.path for f in in_order]


def test_the_position_stays_small_however_many_files_were_read() -> None:
    world = World(remember=100, per_cut=10)
    for number in range(5_000):
        world.folder[f"file-{number:06}"] = info(f"file-{number:06}", number)
        if number % 10 == 9:
            world.cut()
    assert len(world.read) == 5_000
    assert len(str(world.position.dump())) < 3_000


def test_removed_files_are_forgotten_first_so_a_tidy_folder_has_no_horizon() -> None:
    world = World(remember=10)
    for number in range(100):
        world.folder = {f"f{number}": info(f"f{number}", number)}
        world.cut()
    assert world.position.horizon is None
    world.folder = {"late": info("late", 0)}
    world.restart()
    world.drain()
    assert world.read[-1] == "late"


def test_a_late_file_below_the_horizon_is_found_while_the_worker_lives() -> None:
    world = World(remember=4)
    world.folder = {f"f{i}": info(f"f{i}", 100 + i) for i in range(20)}
    world.drain()
    assert world.position.horizon is not None
    world.folder["late"] = info("late", 1)
    world.drain()
    assert world.read[-1] == "late"
    world.restart()
    world.drain()
    assert world.read.count("late") == 1


def test_late_files_that_wait_survive_restarts_although_they_are_below_the_horizon() -> None:
    world = World(remember=4, per_cut=6)
    world.folder = {f"f{i}": info(f"f{i}", 100 + i) for i in range(12)}
    world.drain()
    # Many late files at once, more than fit into a cut.
    world.folder |= {f"late{i}": info(f"late{i}", i) for i in range(20)}
    for _ in range(10):
        world.cut()
        world.restart()
    assert sorted(p for p in world.read if p.startswith("late")) == sorted(
        f"late{i}" for i in range(20)
    )


def test_a_cut_takes_whole_files_and_at_least_one() -> None:
    files = [info(f"f{i}", i, size=size) for i, size in enumerate([50, 5, 5, 50])]
    taken, rows = take_files(files, 10, lambda f: f.bytes)
    assert ([f.path for f in taken], rows) == (["f0"], 50)
    taken, rows = take_files(files[1:], 10, lambda f: f.bytes)
    assert ([f.path for f in taken], rows) == (["f1", "f2"], 10)
