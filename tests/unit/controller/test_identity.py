"""Names of jobs and of lease holders."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys

import pytest

from headgate.controller.identity import (
    is_dead_holder,
    job_id_for,
    job_ids_for,
    lease_holder,
    new_job_id,
    process_table,
)
from headgate.controller.processes.sessions import process_identity
from headgate.core.names import check_name
from tests.support.waiting import eventually


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


def test_name_of_a_file_needs_no_hash_and_a_job_that_has_one_is_still_found() -> None:
    new, older = job_ids_for("my_totals")
    assert new == job_id_for("my_totals") == "my_totals"
    assert older == "my-totals-" + hashlib.sha256(b"my_totals").hexdigest()[:8]
    assert job_ids_for("orders-by-minute") == ("orders-by-minute",)


def test_names_that_look_alike_are_different_jobs() -> None:
    names = ["Orders", "orders", "orders!", "ORDERS", "orders "]
    assert len({job_id_for(name) for name in names}) == len(names)


def test_own_process_is_not_dead() -> None:
    assert not is_dead_holder(lease_holder())
    assert lease_holder() != lease_holder()


@pytest.fixture
def ended() -> str:
    """A process that has ended, as the middle of a holder's name."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return f"{process.pid}|123"


def test_process_that_has_ended_is_dead_even_if_its_number_is_used_again(ended: str) -> None:
    assert is_dead_holder(f"{process_table()}|{ended}|x")
    assert is_dead_holder(f"{process_table()}|{os.getpid()}|not-its-start|x")


def test_process_of_another_table_may_be_alive(ended: str) -> None:
    boot, pids, times = process_table().split(".")
    for elsewhere in (
        f"other-boot.{pids}.{times}",
        f"{boot}.1.{times}",
        f"{boot}.{pids}.1",
        socket.gethostname(),
        "",
    ):
        assert not is_dead_holder(f"{elsewhere}|{ended}|x")
    assert not is_dead_holder("")
    assert not is_dead_holder("somebody")


def test_process_that_is_hidden_from_us_is_not_dead(
    monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    def refused(pid: int, number: int) -> None:
        raise PermissionError

    assert is_dead_holder(f"{process_table()}|{ended}|x")
    monkeypatch.setattr(os, "kill", refused)
    assert not is_dead_holder(f"{process_table()}|{ended}|x")


def test_process_that_waits_for_its_parent_is_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = process_identity(process.pid)
    holder = f"{process_table()}|{process.pid}|{started}|x"
    assert not is_dead_holder(holder)
    process.kill()
    assert eventually(lambda: is_dead_holder(holder)), "it is not reaped"
    process.wait()


def test_process_table_of_another_namespace_has_another_name() -> None:
    code = "from headgate.controller.identity import process_table; print(process_table())"
    apart = ["unshare", "--user", "--pid", "--fork"]
    names = []
    for command in ([*apart, "--mount-proc"], apart):
        answer = subprocess.run([*command, sys.executable, "-c", code], capture_output=True)
        if answer.returncode != 0:
            pytest.skip(f"no namespaces here: {answer.stderr.decode()}")
        names.append(answer.stdout.decode().strip())
    with_its_own, with_ours = names
    assert with_its_own.split(".")[0] == process_table().split(".")[0]
    assert with_its_own.split(".")[1] != process_table().split(".")[1]
    assert with_ours == "", "what `/proc` shows there are not its own processes"


def test_identity_of_no_process_is_empty() -> None:
    assert process_identity(os.getpid())
    assert process_identity(2**22 + 1) == ""
