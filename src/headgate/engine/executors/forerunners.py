"""Takes the cores of a standalone cluster back from earlier generations of a job.

A Master learns from a broken connection that a driver is gone. If its host lost its power, or is
cut off, that takes many minutes, in which its executors keep their cores and are started again as
often as they give up. The next generation knows better: the earlier ones are fenced, so it tells
the Master that they are over, in the message that they would have sent themselves.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext

from headgate.core.applications import is_forerunner
from headgate.core.ids import Generation, JobId

log = logging.getLogger("headgate.worker")

_STANDALONE = "spark://"
_MESSAGES = "org.apache.spark.deploy.DeployMessages$"


def end_forerunners(
    context: SparkContext, master: str, job: JobId, generation: Generation, place: str
) -> None:
    """Tell every Master of a standalone cluster; on other clusters there is nothing to tell.

    One that is silent takes its time, so this is done beside the wait for executors. Whoever cannot
    be told is left alone: the job then waits for its cores as for any others.
    """
    if not master.startswith(_STANDALONE):
        return
    for address in master.removeprefix(_STANDALONE).split(","):
        arguments = (context, address, job, generation, place)
        threading.Thread(target=_tell, args=arguments, name="forerunners", daemon=True).start()


def _tell(
    context: SparkContext, address: str, job: JobId, generation: Generation, place: str
) -> None:
    try:
        master = _Master(context, address)
        try:
            for application, name in master.applications():
                if is_forerunner(name, job, generation, place):
                    log.warning("%s (%s) is over: its cores are free", name, application)
                    master.end(application)
        finally:
            master.close()
    except Py4JError as error:
        log.warning("the Master %s was not asked for earlier generations: %s", address, error)


class _Master:
    """Talks to a Master as Spark's own programs do. The only place that knows how."""

    def __init__(self, context: Any, address: str) -> None:
        self._jvm = context._jvm
        self._spark = self._jvm.org.apache.spark
        conf = context._jsc.sc().getConf()
        kind = self._spark.SecurityManager
        security = kind(
            conf, self._jvm.scala.Option.empty(), getattr(kind, "$lessinit$greater$default$3")()
        )
        driver = conf.get("spark.driver.host")
        self._rpc = self._spark.rpc.RpcEnv.create("headgate", driver, 0, conf, security, True)
        host, _, port = address.rpartition(":")
        self._address = self._spark.rpc.RpcAddress(host, int(port))

    def applications(self) -> list[tuple[str, str]]:
        """Return the id and the name of everything that runs."""
        answer = self._class(f"{_MESSAGES}MasterStateResponse")
        question = self._class(f"{_MESSAGES}RequestMasterState$").getField("MODULE$").get(None)
        tag = self._jvm.scala.reflect.ClassTag.apply(answer)
        state = self._master().askSync(question, tag)
        return [(each.id(), each.desc().name()) for each in state.activeApps()]

    def end(self, application: str) -> None:
        unregister = getattr(self._spark.deploy, "DeployMessages$UnregisterApplication")
        self._master().send(unregister(application))
        # It is answered after that was heard: a connection that closes may lose what it holds.
        self.applications()

    def close(self) -> None:
        self._rpc.shutdown()

    def _master(self) -> Any:
        return self._rpc.setupEndpointRef(self._address, "Master")

    def _class(self, name: str) -> Any:
        return self._jvm.java.lang.Class.forName(name)
