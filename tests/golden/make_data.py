"""Writes the data of the golden pipelines anew; the same seed gives the same files.

Rows arrive out of order by up to three seconds. In `late_rides.json` those marked `late` come more
than a minute and a half after their time: with micro-batches of 60 rows every window of theirs of
up to half a minute has been written by then.
"""

from __future__ import annotations

import csv
import json
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
START = datetime(2024, 3, 1)
ROWS = 200


def main() -> None:
    rng = random.Random(7)
    rides = _rides(rng)
    _write_json("rides.json", rides)
    _write_json("late_rides.json", _late(rides))
    _write_json("accounts.json", _account_changes(rng))
    _write_json("events.json", _events(rng))
    _write_readings(rng)
    _write_log(rng)
    _write_lookups(rng)


def _write_json(name: str, rows: list[dict[str, Any]]) -> None:
    (DATA / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def _time(seconds: float) -> str:
    return (START + timedelta(milliseconds=round(seconds * 1000))).isoformat(
        timespec="milliseconds"
    )


def _maybe(rng: random.Random, value: Any, share: float = 0.1) -> Any:
    """Return the value, or null for a share of the rows."""
    return None if rng.random() < share else value


def _rides(rng: random.Random) -> list[dict[str, Any]]:
    rows = []
    for number in range(ROWS):
        distance = round(rng.uniform(0.5, 30), 1)
        seconds = number * 0.6 + 3 - rng.uniform(0, 3)
        rows.append(
            {
                "ride": number,
                "driver": f"driver-{rng.randrange(7)}",
                "city": _maybe(rng, rng.choice(["Oslo", "Lima", "Pune"])),
                "status": rng.choice(["requested", "started", "finished", "cancelled"]),
                "fare": _maybe(rng, round(2.5 + distance * 1.7 + rng.uniform(-2, 2), 2)),
                "distance": distance,
                "seats": rng.randrange(1, 5),
                "flags": _maybe(rng, rng.randrange(16)),
                "pooled": _maybe(rng, rng.random() < 0.5),
                "at": _time(seconds),
            }
        )
    return rows


def _late(rides: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for row in rides:
        late = row["ride"] > 160 and row["ride"] % 9 == 0
        at = datetime.fromisoformat(row["at"]) - timedelta(seconds=100 if late else 0)
        rows.append({**row, "at": at.isoformat(timespec="milliseconds"), "late": late})
    return rows


def _account_changes(rng: random.Random) -> list[dict[str, Any]]:
    """Return changes of a table as Debezium tells them; some are wrapped into a payload."""
    known: dict[int, dict[str, Any]] = {}
    changes: list[dict[str, Any]] = []
    for number in range(ROWS):
        row = rng.randrange(40)
        before = known.get(row)
        after: dict[str, Any] | None = None
        if before is None or rng.random() < 0.75:
            after = {
                "id": row,
                "owner": before["owner"] if before else f"owner-{rng.randrange(9)}",
                "city": _maybe(rng, rng.choice(["Oslo", "Lima", "Pune"])),
                "balance": _maybe(rng, rng.randrange(-500, 5000)),
                "score": round(rng.uniform(0, 10), 2),
                "active": rng.random() < 0.7,
                "seen": 1_709_251_200_000 + number * 500,
            }
        op = "d" if after is None else "u" if before else rng.choice("cr")
        change = {"before": before, "after": after, "op": op, "ts_ms": number}
        changes.append({"schema": None, "payload": change} if number % 5 == 0 else change)
        if after is None:
            del known[row]
        else:
            known[row] = after
    return changes


def _events(rng: random.Random) -> list[dict[str, Any]]:
    rows = []
    for number in range(ROWS):
        row: dict[str, Any] = {
            "id": number,
            "type": rng.choice(["order", "order", "return", "visit"]),
            "user": {"name": f"user-{rng.randrange(6)}", "vip": rng.random() < 0.3},
            "items": [
                {"sku": f"s{rng.randrange(20)}", "qty": rng.randrange(1, 4)}
                for _ in range(rng.randrange(4))
            ],
            "amount": round(rng.uniform(1, 200), 2),
            "city": _maybe(rng, rng.choice(["Oslo", "Lima", "Pune"])),
            "at": _time(number * 0.6 + 3 - rng.uniform(0, 3)),
        }
        if rng.random() < 0.3:
            row["gift"] = {"text": 'with "love"', "wrap": None}
        rows.append(row)
    return rows


def _write_readings(rng: random.Random) -> None:
    with (DATA / "readings.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["sensor", "celsius", "volts", "note", "at"])
        for number in range(ROWS):
            writer.writerow(
                [
                    f"sensor-{rng.randrange(5)}",
                    _maybe(rng, round(rng.uniform(-5, 40), 2)),
                    rng.randrange(200, 260),
                    rng.choice(["ok", 'a "quoted" word', "one, two", "ok"]),
                    _time(number * 0.6 + 3 - rng.uniform(0, 3)),
                ]
            )


def _write_log(rng: random.Random) -> None:
    lines = []
    for number in range(ROWS):
        path = rng.choice(["/", "/cart", "/item/7", "/item/12?ref=mail"])
        status = rng.choice([200, 200, 200, 304, 404, 500])
        lines.append(
            f"10.0.0.{rng.randrange(4)} [{_time(number * 0.6 + 3 - rng.uniform(0, 3))}] "
            f'"{rng.choice(["GET", "POST"])} {path}" {status} {rng.randrange(9000)}\n'
        )
    (DATA / "access.log").write_text("".join(lines))


def _write_lookups(rng: random.Random) -> None:
    """Write what is known about some of the shops, and the side table of Nexmark's q13."""
    shops = [{"shop": f"shop-{n}", "city": _maybe(rng, "Oslo"), "area": 10 * n} for n in range(4)]
    _write_json("shops.json", shops)
    lines = "".join(f"{key},value-{rng.randrange(1000)}\n" for key in range(0, 100, 3))
    (DATA / "side.csv").write_text("key,value\n" + lines)


if __name__ == "__main__":
    main()
