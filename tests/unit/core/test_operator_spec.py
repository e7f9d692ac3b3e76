"""Kinds by their names: what is stored of an operator is no more than that."""

from __future__ import annotations

import pytest

from headgate.core.operator_spec import role_of, spec_class
from headgate.operators import DeduplicateSpec
from headgate.state.protocol.records import OperatorLink


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        ("source", "source"),
        ("sink", "sink"),
        ("window_aggregate", "stateful"),
        ("project", "stateless"),
    ],
)
def test_a_stored_kind_has_the_role_of_its_spec(kind: str, role: str) -> None:
    assert role_of(kind) == role


def test_a_checkpoint_with_a_kind_that_is_not_known_here_can_be_looked_at() -> None:
    link = OperatorLink(operator="far-1", kind="from_elsewhere", path="p", bytes=1, sha256="")
    assert link.role is None


def test_a_graph_with_such_a_kind_cannot_be_read() -> None:
    assert spec_class("deduplicate") is DeduplicateSpec
    with pytest.raises(ValueError, match="operator 'from_elsewhere'"):
        spec_class("from_elsewhere")
