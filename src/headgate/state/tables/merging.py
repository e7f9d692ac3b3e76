"""Which runs of a table to join: pure arithmetic over sizes.

Runs form tiers: each tier holds files about `fanout` times larger than the one below. When a new
run would be the `fanout`-th of its tier, all of them are joined into one of the next tier. A row
is therefore rewritten about once per tier, log(state) / log(fanout) times in its life, and a
table never has more than about `fanout` runs per tier.

Only the newest runs are ever joined, always together with the new one: then runs stay ordered by
age, and a barrier writes one object, merge or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.core.checkpoint import RunRef

UNITS_MAX = 24
TIER_BASE_ROWS = 1 << 10


def tier(size: int, fanout: int, base: int = TIER_BASE_ROWS) -> int:
    """Return the tier of a run of this many rows; small ones all belong to the lowest."""
    level = 0
    limit = base * fanout
    while size >= limit:
        level += 1
        limit *= fanout
    return level


def merge_start(
    sizes: Sequence[int],
    new: int,
    *,
    fanout: int,
    base: int = TIER_BASE_ROWS,
    units_max: int = UNITS_MAX,
) -> int:
    """Return the index from which existing runs (oldest first) join the new one.

    `len(sizes)` means that none does.
    """
    start = len(sizes)
    total = new
    while start > 0:
        level = tier(total, fanout, base)
        first = start
        while first > 0 and tier(sizes[first - 1], fanout, base) <= level:
            first -= 1
        if start - first + 1 < fanout:
            break
        total += sum(sizes[first:start])
        start = first
    # Many runs come together when parallelism shrinks: the bound holds whatever their sizes.
    return min(start, max(0, units_max - 1))


def units(runs: Iterable[RunRef]) -> list[list[RunRef]]:
    """Group runs (oldest first) that are equally old; only whole groups are joined.

    Runs with the same last epoch never hold the same key: they are one large run written in
    pieces, or come from different subtasks before a change of parallelism. Joining all of them
    or none keeps the order by last epoch true for whoever sorts the list again.
    """
    groups: list[list[RunRef]] = []
    for run in runs:
        if groups and groups[-1][-1].last_epoch == run.last_epoch:
            groups[-1].append(run)
        else:
            groups.append([run])
    return groups


def live_rows(run: RunRef) -> int:
    """Estimate how many rows of a run belong to this subtask."""
    share = max((each.parallelism for each in run.filters), default=1)
    return max(1, run.rows // share)
