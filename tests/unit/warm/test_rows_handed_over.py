"""What the sink of a query hands over."""

from __future__ import annotations

from headgate.connectors.preview.connector import CONNECTOR
from headgate.core.checkpoint import StagedFile
from headgate.core.ids import Epoch, JobId, Subtask
from headgate.operators import SinkSpec
from headgate.warm.rows_sink import RowsSink

EPOCH = Epoch(1)


def test_rows_come_subtask_by_subtask_and_whole() -> None:
    spec = SinkSpec(table="preview", connector=CONNECTOR.name, options={})
    handed: list[str] = []
    sink = RowsSink(spec, handed.extend)
    # Characters that end a line for Python, and none in JSON.
    texts = {0: '{"t":"a\u2028b"}\n{"t":"c\x85d"}\n', 1: '{"t":"e"}\n'}
    contents = {f"{subtask:03}-0.json": text.encode() for subtask, text in texts.items()}
    staged = [
        StagedFile(
            path=path,
            bytes=len(contents[path]),
            checksum="",
            rows=1,
            subtask=Subtask(int(path[:3])),
            epoch=EPOCH,
        )
        for path in sorted(contents, reverse=True)
    ]
    sink.publish(JobId("job_q"), EPOCH, staged, None, lambda file: contents[file.path])
    assert handed == ['{"t":"a\u2028b"}', '{"t":"c\x85d"}', '{"t":"e"}']
