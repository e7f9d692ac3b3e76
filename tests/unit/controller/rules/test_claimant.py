"""Who may claim a generation back."""

from __future__ import annotations

import pytest

from headgate.controller.rules.claimant import Claimant, for_turn, may_claim_back, parse_claimant


def test_claimant_survives_its_text() -> None:
    claimant = Claimant(database="db_1", lease=7, controller="pid-3")
    assert parse_claimant(claimant.text()) == claimant
    assert parse_claimant(for_turn(claimant.text(), 12)) == claimant
    assert parse_claimant("something else") is None


@pytest.mark.parametrize(
    ("ours", "theirs", "allowed"),
    [
        ("db/7/a", "db/6/b/3", True),
        ("db/7/a", "db/7/a/9", True),
        ("db/7/a", "db/8/b/3", False),
        ("db/7/a", "other/1/b/3", False),
        ("db/7/a", "", False),
        ("db/7/a", "manual", False),
    ],
)
def test_only_an_earlier_holder_of_our_own_lease_is_gone_past(
    ours: str, theirs: str, allowed: bool
) -> None:
    assert may_claim_back(ours=ours, theirs=theirs) is allowed
