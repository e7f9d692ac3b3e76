"""What a checkpoint keeps of micro-batches follows what they read, and can be walked again."""

from __future__ import annotations

import os
from pathlib import Path

from headgate.connectors.base import SteppingSource
from headgate.core.checkpoint import BatchCut, EpochCut, EpochReplay, LoadingPlan
from headgate.core.ids import Epoch, Generation, JobId, OperatorId
from headgate.core.messages import EpochCutDone
from headgate.core.model import JsonValue, from_json, to_json
from headgate.engine.worker.replays import with_positions
from headgate.engine.worker.rules.epoch import EpochLedger
from headgate.testing import columns, open_source

SOURCE = OperatorId("source-1")
READ, BATCHES = 4_000, 600


def folder_source(folder: Path) -> SteppingSource:
    options = {"path": str(folder), "format": "json", "source.remember_files": 5_000}
    source = open_source("filesystem", options, columns(n="bigint"))
    assert isinstance(source, SteppingSource)
    return source


def epoch_of(folder: Path) -> tuple[JsonValue, list[BatchCut]]:
    """Read 4,000 files, then one file in each of 600 micro-batches; return these."""
    for number in range(READ + BATCHES):
        path = folder / f"{number:05}.json"
        path.write_text('{"n": 1}\n')
        os.utime(path, (number, number))
    source = folder_source(folder)
    first = source.plan_cut(source.initial_position(), READ, 0).end
    cuts, here = [], first
    for _ in range(BATCHES):
        planned = source.plan_cut(here, 1, 0)
        cuts.append(
            BatchCut(
                start={SOURCE: here},
                end={SOURCE: planned.end},
                watermark=0,
                steps={SOURCE: planned.step},
            )
        )
        here = planned.end
    return first, cuts


def test_six_hundred_micro_batches_of_a_large_folder_fit_into_a_message(tmp_path: Path) -> None:
    first, cuts = epoch_of(tmp_path)
    ledger = EpochLedger(recorded=Epoch(0))
    for cut in cuts:
        ledger = ledger.with_batch(cut, {})
    stored = EpochCut(batches=ledger.closed(Epoch(1)).cut.cuts, watermark=0)
    message = EpochCutDone(generation=Generation(1), epoch=Epoch(1), attempt=1, cut=stored)
    whole = EpochCut(batches=tuple(cuts), watermark=0)
    assert len(to_json(first)) > 40_000
    assert len(to_json(whole)) > 50_000_000
    assert len(to_json(message)) < 200_000
    # A recovery that runs the epoch again gets back every position, to the last byte.
    plan = LoadingPlan(
        job=JobId("job_a"),
        parallelism=1,
        globals={SOURCE: {"position": first}},
        replays=(EpochReplay(epoch=Epoch(1), cut=from_json(EpochCut, to_json(stored))),),
    )
    walked = with_positions(plan, {SOURCE: folder_source(tmp_path)}, {SOURCE: first})
    assert walked.replays[0].cut.batches == tuple(cuts)


def test_cuts_of_older_checkpoints_are_run_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"n": 1}\n')
    source = folder_source(tmp_path)
    start = source.initial_position()
    end = source.plan_cut(start, 1, 0).end
    old = EpochCut(
        batches=(BatchCut(start={SOURCE: start}, end={SOURCE: end}, watermark=0),), watermark=0
    )
    replays = (EpochReplay(epoch=Epoch(1), cut=old),)
    plan = LoadingPlan(job=JobId("job_a"), parallelism=1, replays=replays)
    assert with_positions(plan, {SOURCE: source}, {SOURCE: start}).replays == replays
    assert BatchCut(start={SOURCE: start}, end={SOURCE: end}, watermark=0).stored().end == {
        SOURCE: end
    }
