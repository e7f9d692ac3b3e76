"""Paths are written and read back in one place, and none leaves the job's folder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import CheckpointInvalid, UserError
from headgate.core.names import check_name
from headgate.state.protocol import layout

NUMBER = st.integers(1, 10**9)
NAME = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,20}", fullmatch=True)


def test_the_layout_is_the_documented_one() -> None:
    assert layout.generation_record(3) == "generations/3/generation.json"
    assert layout.manifest(3, 7, 1) == "generations/3/checkpoints/0000007-001/manifest.json"
    assert (
        layout.operator_metadata(3, 7, 2, "win")
        == "generations/3/checkpoints/0000007-002/operator-win.json"
    )
    assert layout.run(3, "win", "w", 7, 1, 0) == "generations/3/runs/win/w/0000007-001-0.parquet"
    assert layout.staging_folder(3, "out", 7) == "generations/3/staging/out/0000007/"
    assert layout.epoch_record(7) == "epochs/0000007.json"
    assert layout.committed_marker(7) == "committed/0000007.json"
    assert layout.savepoint("before-upgrade") == "savepoints/before-upgrade.json"


@given(generation=NUMBER, epoch=NUMBER, attempt=st.integers(1, 5000), subtask=st.integers(0, 5000))
def test_numbers_come_back_from_paths(
    generation: int, epoch: int, attempt: int, subtask: int
) -> None:
    manifest = layout.manifest(generation, epoch, attempt)
    assert layout.checkpoint_of(manifest) == (generation, epoch, attempt)
    assert layout.generation_of(manifest) == generation
    run = layout.run(generation, "op", "table", epoch, subtask, attempt)
    assert layout.run_of(run) == (generation, "op", "table", epoch)
    staged = layout.staging_folder(generation, "sink", epoch) + "part-0.json"
    assert layout.staged_of(staged) == (generation, "sink", epoch)
    assert layout.epoch_of(layout.epoch_record(epoch)) == epoch
    assert layout.epoch_of(layout.committed_marker(epoch)) == epoch
    for path in (run, staged, layout.generation_record(generation)):
        assert layout.checkpoint_of(path) is None
        assert layout.epoch_of(path) is None


@given(epochs=st.lists(st.integers(1, 9_999_999), max_size=20))
def test_epochs_sort_as_text_as_they_do_as_numbers(epochs: list[int]) -> None:
    assert sorted(map(layout.epoch_record, epochs)) == [
        layout.epoch_record(epoch) for epoch in sorted(epochs)
    ]


@pytest.mark.parametrize(
    "path",
    ["epochs/7.json", "epochs/0000007.tmp", "x/epochs/0000007.json", "epochs/0000007.json/x"],
)
def test_what_only_looks_like_a_record_is_none(path: str) -> None:
    assert layout.epoch_of(path) is None


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "/etc/passwd",
        "../other/epochs/0000001.json",
        "a/../../b",
        "a//b",
        "a/./b",
        "a/..",
        "a/",
        "a\\..\\b",
        "a\0b",
    ],
)
def test_a_reference_cannot_leave_the_jobs_folder(path: str) -> None:
    with pytest.raises(CheckpointInvalid) as caught:
        layout.safe_relative(path)
    assert caught.value.code == "corrupt"


@given(parts=st.lists(NAME.filter(lambda n: n not in (".", "..")), min_size=1, max_size=6))
def test_plain_relative_paths_are_safe(parts: list[str]) -> None:
    path = "/".join(parts)
    assert layout.safe_relative(path) == path


@given(name=st.text(max_size=12))
def test_a_checked_name_is_always_a_safe_path(name: str) -> None:
    try:
        check_name(name, what="savepoint")
    except UserError:
        return
    assert layout.safe_relative(f"savepoints/{name}.json")
    assert "/" not in name
