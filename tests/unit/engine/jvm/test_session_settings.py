"""What Spark is told, by where it runs and where its files may be."""

from __future__ import annotations

import tempfile

import pytest

from headgate.core.jvm_folder import SOCKET_FOLDER_MAX, jvm_folder
from headgate.core.messages import RunSettings
from headgate.engine.jvm.session import JAVA_OPTIONS, configuration

SHORT = "/data/scratch/job/1"
LONG = f"/{'long/' * (SOCKET_FOLDER_MAX // 5)}1"


def told(scratch_dir: str, master: str = "local", **spark: str) -> dict[str, str]:
    conf = {f"spark.{key.replace('_', '.')}": value for key, value in spark.items()}
    settings = RunSettings(
        state_url="s3://b/state", scratch_dir=scratch_dir, master=master, spark_conf=conf
    )
    return configuration(settings, parallelism=2)


def test_temporary_files_go_with_the_generation() -> None:
    assert f'"-Djava.io.tmpdir={SHORT}"' in told(SHORT)[JAVA_OPTIONS]


def test_a_path_too_long_for_sockets_gets_a_short_name_of_its_own() -> None:
    short = jvm_folder(LONG)
    assert short is not None
    assert len(short) <= SOCKET_FOLDER_MAX
    assert short not in (LONG, jvm_folder(LONG + "0"))
    found = told(LONG)
    assert f'"-Djava.io.tmpdir={short}"' in found[JAVA_OPTIONS]
    assert found["spark.python.unix.domain.socket.dir"] == short


def test_sockets_are_not_put_where_their_paths_would_be_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: LONG)
    found = told(LONG)
    assert "java.io.tmpdir" not in found[JAVA_OPTIONS]
    assert "spark.python.unix.domain.socket.dir" not in found


def test_executors_are_told_nothing_of_the_drivers_folders() -> None:
    found = told(SHORT, "spark://host:7077")
    assert not any(SHORT in value for key, value in found.items() if key != JAVA_OPTIONS)


def test_a_job_takes_as_many_cores_of_a_cluster_as_it_has_subtasks() -> None:
    assert told(SHORT, "spark://host:7077")["spark.cores.max"] == "2"
    assert told(SHORT, "spark://host:7077", cores_max="9")["spark.cores.max"] == "9"
    assert "spark.cores.max" not in told(SHORT)


def test_a_silent_host_is_given_up_sooner_on_a_cluster_unless_the_user_says_otherwise() -> None:
    assert "spark.network.timeout" not in told(SHORT)
    assert told(SHORT, "spark://host:7077")["spark.network.timeout"] == "40s"
    assert told(SHORT, "spark://host:7077", network_timeout="9s")["spark.network.timeout"] == "9s"
