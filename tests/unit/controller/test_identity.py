"""Names of jobs and of lease holders."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from headgate.controller.identity import is_dead_holder, job_id_for, lease_holder, new_job_id
from headgate.controller.processes.sessions import process_identity
from headgate.core.names import check_name


@pytest.mark.parametrize(
    "name", ["orders", "Orders by minute!", "Größe", "../../etc", "", "a" * 500]
)
def test_job_id_follows_from_the_name_and_fits_into_a_path(name: str) -> None:
    job = job_id_for(name)
    assert job == job_id_for(name)
    assert check_name(job, what="job") == job
    assert check_name(new_job_id(name), what="job") != job


def test_simple_name_is_its_own_job_id() -> None:
    assert job_id_for("orders-by-minute") == "orders-by-minute"


def test_names_that_look_alike_are_different_jobs() -> None:
    names = ["Orders", "orders", "orders!", "ORDERS", "orders "]
    assert len({job_id_for(name) for name in names}) == len(names)


def test_own_process_is_not_dead() -> None:
    assert not is_dead_holder(lease_holder())
    assert lease_holder() != lease_holder()


def test_process_that_has_ended_is_dead_even_if_its_number_is_used_again() -> None:
    host = lease_holder().split("|")[0]
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert is_dead_holder(f"{host}|{process.pid}|123|x")
    assert is_dead_holder(f"{host}|{os.getpid()}|not-its-start|x")


def test_process_of_another_host_may_be_alive() -> None:
    assert not is_dead_holder(f"elsewhere|{os.getpid()}|1|x")
    assert not is_dead_holder("")
    assert not is_dead_holder("somebody")


def test_identity_of_no_process_is_empty() -> None:
    assert process_identity(os.getpid())
    assert process_identity(2**22 + 1) == ""
