"""Failpoints: armed by the environment for one process, or in a folder for whoever passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.core.errors import InternalError, UserError
from headgate.core.failpoints import Failpoints

POINT = "checkpoint.after_manifest"


def test_point_fires_at_the_passage_it_names() -> None:
    points = Failpoints.parse(f"{POINT}=error@2")
    points.hit(POINT)
    with pytest.raises(InternalError):
        points.hit(POINT)
    points.hit(POINT)


def test_point_in_a_folder_fires_once_for_whoever_comes_first(tmp_path: Path) -> None:
    first, second = Failpoints(folder=tmp_path), Failpoints(folder=tmp_path)
    first.hit(POINT)
    (tmp_path / POINT).write_text("error")
    with pytest.raises(InternalError):
        second.hit(POINT)
    assert [file.name for file in tmp_path.iterdir()] == [f"{POINT}.reached"]
    first.hit(POINT)


@pytest.mark.parametrize("text", ["nowhere=kill", f"{POINT}=explode", f"{POINT}=delay:soon"])
def test_what_nobody_would_pass_or_do_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        Failpoints.parse(text)
