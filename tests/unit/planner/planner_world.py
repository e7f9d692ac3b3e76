"""Tables that the planner's tests read and write, and short ways to plan over them."""

from __future__ import annotations

from typing import Any

from headgate.core.graph import Operator, PipelineGraph
from headgate.planner import plan

TABLES = """
CREATE TABLE rides (
  at TIMESTAMP NOT NULL, driver BIGINT, kind TEXT, place TEXT, fare DECIMAL(10,2), tip FLOAT,
  meters DOUBLE, seats INT, tags TEXT[], info struct<a int, b struct<c text>>, payload JSON,
  paid BOOLEAN, WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH (connector = 'single_file', path = '/in/rides.json', format = 'json', type = 'source');
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP) WITH (
  connector = 'single_file', path = '/in/bids.json', format = 'json', type = 'source',
  event_time_field = 'at');
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount BIGINT, price DOUBLE) WITH (
  connector = 'single_file', path = '/in/orders.json', format = 'debezium_json', type = 'source');
CREATE TABLE facts (a BIGINT, b TEXT) WITH (
  connector = 'single_file', path = '/out/facts.json', format = 'json', type = 'sink');
CREATE TABLE changes (a BIGINT, b TEXT) WITH (
  connector = 'single_file', path = '/out/changes.json', format = 'debezium_json', type = 'sink');
"""


def planned(query: str, **options: Any) -> PipelineGraph:
    """Plan a query over the tables above."""
    return plan(TABLES + query, **options)


def only(graph: PipelineGraph, kind: str) -> Operator:
    """Return the one operator of a kind."""
    (found,) = [o for o in graph.operators if o.spec.kind == kind]
    return found


def spec_of(query: str, kind: str) -> Any:
    """Return the spec of the one operator of a kind in a query's plan."""
    return only(planned(query), kind).spec


def output_texts(query: str) -> dict[str, str]:
    """Return the Spark text of each output column of a query without state."""
    return {e.name: e.expr for e in spec_of(query, "project").exprs}


def ids(graph: PipelineGraph, kind: str) -> list[str]:
    return [o.id for o in graph.operators if o.spec.kind == kind]
