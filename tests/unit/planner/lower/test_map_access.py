"""`m[key]` of a map, whose key is no place in an array."""

from __future__ import annotations

import pytest

from tests.unit.planner.planner_world import only, planned

MAPS = """
CREATE TABLE maps (
  m MAP<TEXT,INT>, n MAP<BIGINT, MAP<TEXT,INT>>, k TEXT, i BIGINT, a INT[], s struct<m MAP<INT,INT>>
) WITH (connector = 'single_file', path = '/in/maps.json', format = 'json', type = 'source');
"""


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("m[k]", "m[k]"),
        ("m['a']", "m['a']"),
        ("n[i]", "n[i]"),
        ("n[1]", "n[1]"),
        ("n[-1]", "n[-1]"),
        ("n[i + 1][upper(k)]", "n[i + 1][upper(k)]"),
        ("s.m[2]", "s.m[2]"),
        ("m[k] + a[1]", "m[k] + get(a, 0)"),
        ("map('a', 1)[k]", "map('a', 1)[k]"),
        ("a[i]", "get(a, i - 1)"),
        ("a[m[k]]", "get(a, m[k] - 1)"),
        ("like(k, 'a%')", "like(k, 'a%')"),
        ("ilike(k, 'a%', '!')", "ilike(k, 'a%', '!')"),
    ],
)
def test_a_map_is_asked_for_the_key_itself(expression: str, text: str) -> None:
    graph = planned(f"{MAPS} SELECT {expression} AS x FROM maps")
    assert only(graph, "project").spec.exprs[0].expr == text


def test_a_map_behind_a_view_is_asked_for_the_key() -> None:
    graph = planned(f"{MAPS} SELECT x[k] AS y FROM (SELECT m AS x, k FROM maps)")
    assert only(graph, "project").spec.exprs[0].expr == "m[k]"
