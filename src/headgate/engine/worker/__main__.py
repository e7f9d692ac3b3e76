"""The worker process: hosts the Spark driver of one generation of one job.

`python -m headgate.engine.worker --controller HOST:PORT --job J --generation G`, with the settings
of Spark and the generation's token in the environment. It registers, is told what to run, runs it,
and ends: when told to, when a micro-batch fails (after saying why), or when its controller is gone.

With `--spare` instead of a job it lets Spark do a little of what jobs do and waits: one line on its
standard input (`Assignment`) says whose worker it is from then on, the end of the input that it is
not needed.

Spark's JVM takes seconds to start. Nothing is imported here that can wait until it is starting.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from headgate.core.ids import Generation, JobId
from headgate.core.masters import is_local
from headgate.core.messages import SPARK_VARIABLE, TOKEN_VARIABLE, Assignment, SpareSettings
from headgate.core.model import from_json
from headgate.engine.jvm.gateway import StartingJvm
from headgate.engine.jvm.handover import fork_child, listen
from headgate.engine.jvm.session import ONE_THREAD, session_of, start_jvm, warmed

log = logging.getLogger("headgate.worker")


def main(argv: list[str] | None = None) -> int:
    """Run the worker; the exit code is 0 only for an orderly end."""
    parser = argparse.ArgumentParser(prog="headgate-worker", description=__doc__)
    parser.add_argument("--controller", required=True, help="host:port of the controller")
    parser.add_argument("--job")
    parser.add_argument("--generation", type=int)
    parser.add_argument("--spare", action="store_true", help="wait for a job")
    arguments = parser.parse_args(argv)
    if not arguments.spare and (arguments.job is None or arguments.generation is None):
        parser.error("give --job and --generation, or --spare")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    settings: SpareSettings = from_json(SpareSettings, os.environ[SPARK_VARIABLE])
    jvm = start_with_python(settings)
    with ThreadPoolExecutor(1, thread_name_prefix="spark-start") as pool:
        starting = pool.submit(session_of, settings, jvm)
        from headgate.engine.worker.generation import work

        if not arguments.spare:
            assignment = Assignment(
                job=JobId(arguments.job),
                generation=Generation(arguments.generation),
                token=os.environ.get(TOKEN_VARIABLE, ""),
            )
            return work(assignment, arguments.controller, starting.result)
        session = warmed(starting.result(), settings)
        log.info("spare: spark is ready")
        line = sys.stdin.buffer.readline()
        if not line:
            session.stop()
            return 0
        return work(from_json(Assignment, line), arguments.controller, lambda: session)


def start_with_python(settings: SpareSettings) -> StartingJvm:
    """Start the JVM and, on this machine, what it will fork its Python workers from.

    What those import is imported here, while the JVM starts, and shared with them by a fork. There
    must be no other thread then.
    """
    os.environ |= ONE_THREAD
    listening = listen() if is_local(settings.master) else None
    jvm = start_jvm(settings)
    if listening is not None:
        from headgate.engine.jvm.preloaded import serve

        fork_child(listening, serve, [jvm.life_line])
    return jvm


if __name__ == "__main__":
    sys.exit(main())
