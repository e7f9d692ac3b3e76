"""The sequential reference that everything published must equal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.core.checkpoint import WATERMARK_MIN
from tests.simulation.canonical import Canonical
from tests.simulation.violation import Violation
from tests.simulation.workload import Row, Workload, value_of, window_end

Record = tuple[int, int]


@dataclass
class Reference:
    """The job, run sequentially over what its epochs say they processed.

    It knows which records an epoch must emit, and what every sum must be then. Values are positive,
    so the sums of a group tell the order in which its records were processed.
    """

    workload: Workload
    positions: list[int] = field(default_factory=list)
    sums: list[dict[int, int]] = field(default_factory=list)
    watermark: int = WATERMARK_MIN
    # Windows up to here have been emitted.
    emitted: int = WATERMARK_MIN
    # Records that were read and wait for the end of their window.
    held: set[Record] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start from nothing, as a restart that ignores state does."""
        self.positions = [0] * len(self.workload.sources)
        self.sums = [{} for _ in self.workload.stateful]
        self.watermark = self.emitted = WATERMARK_MIN
        self.held = set()

    @property
    def complete(self) -> bool:
        return self.positions == [source.total for source in self.workload.sources]

    def take_epoch(
        self, entry: Canonical, published: list[list[Row]], excused: Mapping[int, int]
    ) -> int:
        """Check what the sinks published for the next epoch; raise `Violation` if it is wrong.

        `excused`: source -> the end of the last window that was rightly emitted without it.
        Returns how many records were dropped as late, and rightly so.
        """
        rows, epoch = published[0], entry.epoch
        late = self._check_records(entry, rows, excused)
        for operator in range(len(self.workload.stateful)):
            self._check_sums(epoch, operator, rows)
        if rows and min(row[3] for row in rows) < self.watermark:
            raise Violation("watermark_went_back", f"epoch {epoch}: it had been {self.watermark}")
        self.watermark = max((row[3] for row in rows), default=self.watermark)
        for number, taken in enumerate(published):
            wanted = sorted(row for row in rows if self.workload.sink_takes(number, row[2]))
            if sorted(taken) != wanted:
                raise Violation(
                    "sinks_disagree", f"epoch {epoch}: sink {number} has {taken}, not {wanted}"
                )
        return late

    def _check_records(self, entry: Canonical, rows: list[Row], excused: Mapping[int, int]) -> int:
        """Every source must go on exactly where it stood, without a gap or a repetition."""
        stood = list(entry.positions.values())
        read = {
            (number, index)
            for number, start in enumerate(self.positions)
            for index in range(start, stood[number])
        }
        emitted = [(row[0], row[1]) for row in rows]
        self.held |= read
        windowed = self.workload.windowed
        wanted = {r for r in self.held if not windowed or self._end(r) <= entry.emitted}
        self.held -= wanted
        excusable = {r for r in wanted if self._end(r) <= excused.get(r[0], WATERMARK_MIN)}
        late = excusable - set(emitted) if windowed else set()
        wanted -= late
        if sorted(emitted) != sorted(wanted):
            missing, surplus = sorted(wanted - set(emitted)), sorted(set(emitted) - wanted)
            raise Violation(
                "output_wrong",
                f"epoch {entry.epoch} lacks records {missing} and has {surplus or emitted} too "
                f"much; sources went on at {self.positions}, windows up to {self.emitted} were out",
            )
        if entry.emitted < self.emitted:
            raise Violation(
                "watermark_went_back", f"epoch {entry.epoch}: windows up to {self.emitted} were out"
            )
        self.positions, self.emitted = stood, entry.emitted
        return len(late)

    def _end(self, record: Record) -> int:
        source = self.workload.sources[record[0]]
        return window_end(source.event_time(record[1]))

    def _check_sums(self, epoch: int, operator: int, rows: list[Row]) -> None:
        sums = self.sums[operator]
        for row in sorted(rows, key=lambda row: row[4][operator]):
            group = self.workload.group_of(operator, row[2])
            expected = sums.get(group, 0) + value_of(row[0], row[1])
            if row[4][operator] != expected:
                raise Violation(
                    "output_wrong",
                    f"epoch {epoch}, record {row[1]} of source {row[0]}: the sum of group {group}"
                    f" in operator {operator} is {row[4][operator]}, not {expected}",
                )
            sums[group] = expected
