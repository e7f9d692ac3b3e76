"""Who is an earlier generation of a job, by the name that a cluster lists."""

from __future__ import annotations

import pytest

from headgate.core.applications import application_name, is_forerunner
from headgate.core.ids import Generation, JobId

JOB, PLACE = JobId("orders"), "s3://bucket/state"


@pytest.mark.parametrize(
    ("name", "earlier"),
    [
        (application_name(JOB, Generation(2), PLACE), True),
        (application_name(JOB, Generation(3), PLACE), False),
        (application_name(JOB, Generation(4), PLACE), False),
        (application_name(JobId("other"), Generation(2), PLACE), False),
        (application_name(JobId("orders-2"), Generation(2), PLACE), False),
        (application_name(JOB, Generation(2), "s3://bucket/other"), False),
        ("headgate", False),
        ("headgate orders", False),
        (application_name(JOB, Generation(2), PLACE) + " again", False),
    ],
)
def test_only_earlier_generations_of_the_same_state_are_forerunners(
    name: str, earlier: bool
) -> None:
    assert is_forerunner(name, JOB, Generation(3), PLACE) is earlier
