"""Random queries, each twice: as a streaming pipeline and as Spark's batch SQL. Pure.

Only what must agree is said: no ties that an order would have to break, no sums of floats that
depend on their order, no two events exactly a session's gap apart.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

TABLES = ("t", "u")
COLUMNS = "k INT, s TEXT, v BIGINT, d DOUBLE, b BOOLEAN, at TIMESTAMP"


@dataclass(frozen=True)
class Query:
    """What a sink gets: the query of the pipeline, and the same for Spark as a batch."""

    kind: str
    stream: str
    batch: str
    updating: bool = False


class Grammar:
    """Makes queries out of one source of randomness."""

    def __init__(self, randomness: random.Random) -> None:
        self._random = randomness

    def query(self) -> Query:
        kinds: list[Callable[[], Query]] = [
            self._projection,
            self._union,
            self._window,
            self._window,
            self._window,
            self._nested,
            self._window_join,
            self._updating,
            self._updating,
            self._updating_twice,
            self._updating_join,
            self._distinct,
        ]
        return self._random.choice(kinds)()

    # ---- expressions -------------------------------------------------------------------------

    def _one(self, *choices: str) -> str:
        return self._random.choice(choices)

    def _number(self) -> str:
        return str(self._random.randint(-3, 12))

    def predicate(self, depth: int = 2) -> str:
        if depth and self._random.random() < 0.4:
            left, right = self.predicate(depth - 1), self.predicate(depth - 1)
            return self._one(f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})")
        return self._one(
            f"v > {self._number()}",
            f"v % 3 = {self._random.randint(0, 2)}",
            f"k = {self._random.randint(0, 4)}",
            f"k <> {self._random.randint(0, 4)}",
            "s IS NULL",
            "s IS NOT NULL",
            "s IN ('ann', 'bo')",
            "s LIKE '%o%'",
            "b",
            "d BETWEEN -1 AND 2.5",
            f"coalesce(v, {self._number()}) >= k",
        )

    def number(self) -> str:
        return self._one(
            "v",
            "k",
            f"v + {self._number()}",
            f"v * {self._number()} - k",
            f"coalesce(v, {self._number()})",
            f"CASE WHEN {self.predicate(1)} THEN v ELSE k END",
            f"abs(v - {self._number()})",
            "length(s)",
            f"nullif(v, {self._number()})",
        )

    def value(self) -> str:
        return self._one(
            self.number(), self.number(), "s", "upper(s)", "concat(s, '-', k)", "d", "b", "d * 2"
        )

    def aggregate(self) -> str:
        number = self.number()
        call = self._one(
            "count(*)",
            f"count({number})",
            f"sum({number})",
            f"min({number})",
            f"max({number})",
            f"avg({number})",
            "sum(d)",
            "min(s)",
            "max(s)",
            "bool_and(b)",
            "bool_or(b)",
            f"count(DISTINCT {number})",
            f"stddev_pop({number})",
            "median(v)",
            "bit_xor(v)",
        )
        return f"{call} FILTER (WHERE {self.predicate(1)})" if self._chance(0.2) else call

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _where(self, share: float = 0.5) -> str:
        return f" WHERE {self.predicate()}" if self._chance(share) else ""

    def _having(self) -> str:
        if not self._chance(0.3):
            return ""
        return f" HAVING {self._one('count(*) > 1', 'sum(v) > 4', 'max(k) < 4')}"

    def _aggregates(self) -> str:
        calls = [self.aggregate() for _ in range(self._random.randint(1, 3))]
        return ", ".join(f"{call} AS a{i}" for i, call in enumerate(calls))

    def _keys(self, least: int) -> list[str]:
        choices = ["k", "s", "b", "v % 2", "length(s)", "k > 2"]
        return self._random.sample(choices, self._random.randint(least, 2))

    def _table(self) -> str:
        return self._random.choice(TABLES)

    # ---- queries -----------------------------------------------------------------------------

    def _projection(self) -> Query:
        text = self._select()
        return Query("projection", text, text)

    def _select(self) -> str:
        values = [self.value() for _ in range(self._random.randint(1, 3))]
        listed = ", ".join(f"{value} AS c{i}" for i, value in enumerate(values))
        return f"SELECT {listed} FROM {self._table()}{self._where()}"

    def _union(self) -> Query:
        parts = [
            f"SELECT {self.number()} AS c0, {self._one('s', 'upper(s)')} AS c1 "
            f"FROM {table}{self._where()}"
            for table in (self._table(), self._table())
        ]
        text = " UNION ALL ".join(parts)
        return Query("union", text, text)

    def _distinct(self) -> Query:
        listed = f"{self._one('k', 'v % 3', 's')} AS c0, {self._one('b', 'length(s)')} AS c1"
        text = f"SELECT DISTINCT {listed} FROM {self._table()}{self._where()}"
        return Query("distinct", text, text)

    def _window_call(self, *, session: bool = True) -> tuple[str, str]:
        """Return (the streaming call, Spark's function over the rows)."""
        seconds = self._random.choice((2, 5, 10))
        kind = self._one("tumble", "hop", "session") if session else self._one("tumble", "hop")
        if kind == "tumble":
            return f"tumble(interval '{seconds} seconds')", f"window(at, '{seconds} seconds')"
        if kind == "hop":
            width = seconds * self._random.randint(2, 3)
            return (
                f"hop(interval '{seconds} seconds', interval '{width} seconds')",
                f"window(at, '{width} seconds', '{seconds} seconds')",
            )
        gap = self._random.choice((1, 2, 4))
        return f"session(interval '{gap} seconds')", f"session_window(at, '{gap} seconds')"

    def _windowed(self, window: tuple[str, str], least_keys: int = 0) -> tuple[str, str, int]:
        """Return a windowed aggregate twice, with columns g0.., w, a0.., and its number of keys."""
        keys, table = self._keys(least_keys), self._table()
        where, having, calls = self._where(0.4), self._having(), self._aggregates()
        named = [f"{key} AS g{i}" for i, key in enumerate(keys)]
        groups = ", ".join([*keys, "w"])
        stream = (
            f"SELECT {', '.join([*named, f'{window[0]} AS w', calls])} "
            f"FROM {table}{where} GROUP BY {groups}{having}"
        )
        batch = (
            f"SELECT {', '.join([*named, 'w', calls])} "
            f"FROM (SELECT *, {window[1]} AS w FROM {table}{where}) GROUP BY {groups}{having}"
        )
        return stream, batch, len(keys)

    def _window(self) -> Query:
        stream, batch, keys = self._windowed(self._window_call())
        outer = [f"g{i}" for i in range(keys)]
        listed = ", ".join([*outer, "w.start AS ws", "w.end AS we", "a0", "a0 IS NULL AS nothing"])
        outside = f"SELECT {listed} FROM ({{}}) AS q"
        return Query("window", outside.format(stream), outside.format(batch))

    def _nested(self) -> Query:
        stream, batch, _ = self._windowed(self._window_call(), least_keys=1)
        outside = (
            "SELECT w.start AS ws, count(*) AS n, max(a0) AS top, count(DISTINCT g0) AS groups "
            "FROM ({}) AS q GROUP BY w"
        )
        # Spark would merge overlapping sessions of different keys, if it knew them for sessions.
        plain = f"SELECT g0, a0, named_struct('start', w.start, 'end', w.end) AS w FROM ({batch})"
        return Query("nested", outside.format(stream), outside.format(plain))

    def _window_join(self) -> Query:
        window = self._window_call(session=False)
        left, right = (self._keyed_window(window) for _ in range(2))
        kind = self._one("JOIN", "LEFT JOIN", "FULL JOIN")
        outside = (
            f"SELECT l.g0 AS lg, r.g0 AS rg, l.a0 AS la, r.a0 AS ra "
            f"FROM ({{}}) AS l {kind} ({{}}) AS r ON l.g0 = r.g0 AND l.w = r.w"
        )
        return Query(
            "window join", outside.format(left[0], right[0]), outside.format(left[1], right[1])
        )

    def _keyed_window(self, window: tuple[str, str]) -> tuple[str, str]:
        table, where = self._table(), self._where(0.4)
        call = self._one("count(*)", "sum(v)", "max(v)")
        stream = f"SELECT k AS g0, {window[0]} AS w, {call} AS a0 FROM {table}{where} GROUP BY k, w"
        batch = (
            f"SELECT k AS g0, w, {call} AS a0 "
            f"FROM (SELECT *, {window[1]} AS w FROM {table}{where}) GROUP BY k, w"
        )
        return stream, batch

    def _updating(self) -> Query:
        keys = self._keys(1)
        named = ", ".join(f"{key} AS g{i}" for i, key in enumerate(keys))
        text = (
            f"SELECT {named}, {self._aggregates()} FROM {self._table()}{self._where()} "
            f"GROUP BY {', '.join(keys)}{self._having()}"
        )
        return Query("updating", text, text, updating=True)

    def _updating_twice(self) -> Query:
        inner = self._one("count(*)", "max(v)", "sum(v)", "min(k)", "count(DISTINCT k)")
        key = self._keys(1)[0]
        where = self._one("", " WHERE n > 1", " WHERE g0 IS NOT NULL")
        outer = self._one("count(*)", "count(g0)", "sum(n)", "max(n)", "min(g0)")
        text = (
            f"SELECT n, {outer} AS a0 FROM (SELECT {key} AS g0, {inner} AS n "
            f"FROM {self._table()}{self._where()} GROUP BY {key}) AS q{where} GROUP BY n"
        )
        return Query("updating twice", text, text, updating=True)

    def _updating_join(self) -> Query:
        on = self._one("l.k = r.k", "l.k = r.k AND l.s = r.s", "l.v = r.v")
        more = self._one("", " AND l.v > r.v", " AND l.b")
        text = (
            f"SELECT l.v AS lv, r.s AS rs, l.k + r.k AS ks FROM t AS l JOIN u AS r ON {on}{more} "
            f"WHERE l.v > {self._number()}"
        )
        return Query("updating join", text, text)


def random_rows(randomness: random.Random, count: int) -> list[dict[str, object]]:
    """Return rows in the order they arrive: at most two seconds late by event time."""
    rows = []
    names = ["ann", "bo", "cy", "", None]
    for i in range(count):
        # No two rows share their milliseconds, so no two are a whole number of seconds apart.
        at = i * randomness.choice((300, 300, 300, 700)) // 1000 + i // 3
        late = max(0, at - randomness.randint(0, 2))
        rows.append(
            {
                "k": randomness.choice([0, 1, 2, 3, 4, None]),
                "s": randomness.choice(names),
                "v": randomness.choice([None, *range(-3, 13)]),
                # Quarters add up exactly, in any order.
                "d": randomness.choice([None, *(q / 4 for q in range(-8, 13))]),
                "b": randomness.choice([True, False, None]),
                "at": f"2024-01-01T00:{late // 60:02}:{late % 60:02}.{i:03}Z",
            }
        )
    return rows
