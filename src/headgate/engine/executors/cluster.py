"""What Spark says of its executors, and what can be asked of it. The only file that knows how."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Timer
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import RDD, SparkContext, cloudpickle
from pyspark.errors import PySparkException
from pyspark.serializers import CPickleSerializer

from headgate.core.messages import ExecutorInfo
from headgate.engine.executors import facts, headgate_daemon

# These run where Headgate may be missing: their text travels, not their names.
cloudpickle.register_pickle_by_value(facts)  # type: ignore[no-untyped-call]
cloudpickle.register_pickle_by_value(headgate_daemon)  # type: ignore[no-untyped-call]

log = logging.getLogger("headgate.worker")

_DRIVER = "driver"
_NO_HOST = "unknown host"
_GROUP = "spark.jobGroup.id"
_TASKS_MAX = 100_000
# What listeners of Spark are told comes a moment after it has happened.
_NEWS_SECONDS_MAX = 5.0
_NEWS_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Told:
    """What came of one task per executor: what it returned, or why it failed there."""

    answers: dict[str, Any] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


class Cluster:
    """The executors of one Spark context."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._scala: Any = context._jsc.sc()
        self._jvm: Any = context._jvm

    def ids(self) -> frozenset[str]:
        """Return the ids of those that there are now. Cheap: two calls, no job."""
        return frozenset(filter(None, self._scala.getExecutorIds().mkString(",").split(",")))

    def describe(self, ids: Iterable[str]) -> dict[str, ExecutorInfo]:
        """Return what is known of these; one that is gone again may be missing."""
        wanted = set(ids)
        deadline = time.monotonic() + _NEWS_SECONDS_MAX
        while True:
            # The host is known a moment after the executor is.
            found = {i: e for i, (e, _) in self._known().items() if i in wanted and e.host}
            if found.keys() == wanted:
                return found
            if time.monotonic() > deadline:
                nameless = wanted - found.keys()
                return found | {i: ExecutorInfo(id=i, host=_NO_HOST) for i in nameless}
            wanted &= self.ids() | found.keys()
            time.sleep(_NEWS_POLL_SECONDS)

    def reasons(self, ids: Iterable[str]) -> dict[str, str]:
        """Return why these are gone, as far as Spark says it."""
        known = self._known()
        return {i: known[i][1] for i in ids if i in known and known[i][1]}

    def release(self, ids: Sequence[str], *, keeping: int) -> None:
        """Send executors away. The job keeps to the `keeping` others that it has.

        Otherwise the cluster would at once give it another one on the same host. With dynamic
        allocation Spark itself knows how many it wants.
        """
        if not self._is_dynamic():
            none = self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(
                self._jvm.java.util.HashMap()
            )
            self._scala.requestTotalExecutors(keeping, 0, none)
        self._scala.schedulerBackend().killExecutors(self._sequence(ids), False, False, True)

    def run_on(
        self,
        executors: Sequence[ExecutorInfo],
        task: Callable[[Any], Any],
        *,
        seconds_max: float,
    ) -> Told:
        """Run one task on each of these executors, if Spark lets it; `task` yields (number, value).

        Where a task has run is read from Spark afterwards: the place is a wish. One that fails is
        tried again by Spark, and the job may fail; what the others have said is then lost.
        """
        group = f"headgate-{uuid.uuid4().hex}"
        before = self._context.getLocalProperty(_GROUP)
        self._context.setLocalProperty(_GROUP, group)
        timer = Timer(seconds_max, self._context.cancelJobGroup, (group,))
        timer.daemon = True
        timer.start()
        returned: dict[int, Any] = {}
        failure: Exception | None = None
        try:
            returned = dict(self._placed(executors).mapPartitions(task).collect())
        except (PySparkException, Py4JError) as error:
            log.warning("the comparison of executors failed: %s", error)
            failure = error
        finally:
            timer.cancel()
            self._context.setLocalProperty(_GROUP, before)  # type: ignore[arg-type]
        return self._told(group, returned, failure)

    def _placed(self, executors: Sequence[ExecutorInfo]) -> RDD[str]:
        """Return an RDD of one partition per executor that wants to be computed there."""
        serializer: Any = CPickleSerializer()
        pairs = [
            self._jvm.scala.Tuple2(
                serializer.dumps(e.id), self._sequence([f"executor_{e.host}_{e.id}"])
            )
            for e in executors
        ]
        tag = self._jvm.scala.reflect.ClassTag.apply(self._jvm.java.lang.Class.forName("[B"))
        placed = self._scala.makeRDD(self._sequence(pairs), tag).toJavaRDD()
        return RDD(placed, self._context, serializer)

    def _told(self, group: str, returned: dict[int, Any], failure: Exception | None) -> Told:
        deadline = time.monotonic() + _NEWS_SECONDS_MAX
        while True:
            places, failures = self._tasks(group)
            complete = returned.keys() <= places.keys() and (failure is None or failures)
            if complete or time.monotonic() > deadline:
                break
            time.sleep(_NEWS_POLL_SECONDS)
        answers = {places[n]: value for n, value in returned.items() if n in places}
        failed = {e: text for e, text in failures.items() if e not in answers}
        return Told(answers=answers, failures=failed)

    def _tasks(self, group: str) -> tuple[dict[int, str], dict[str, str]]:
        """Return where each task has run, and the last failure on each executor."""
        tracker = self._context.statusTracker()
        store = self._scala.statusStore()
        places: dict[int, str] = {}
        failures: dict[str, str] = {}
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for stage in () if info is None else info.stageIds:
                try:
                    tasks = store.taskList(stage, 0, _TASKS_MAX)
                except Py4JError:
                    # The listener has not heard of the stage yet.
                    continue
                for n in range(tasks.size()):
                    each = tasks.apply(n)
                    places[each.taskId()] = each.executorId()
                    if each.status() == "FAILED" and each.errorMessage().isDefined():
                        failures[each.executorId()] = str(each.errorMessage().get())
        return places, failures

    def _known(self) -> dict[str, tuple[ExecutorInfo, str]]:
        listed = self._scala.statusStore().executorList(False)
        found = {}
        for n in range(listed.size()):
            each = listed.apply(n)
            if each.id() == _DRIVER:
                continue
            info = ExecutorInfo(
                id=each.id(),
                host=str(each.hostPort()).rpartition(":")[0],
                cores=each.totalCores(),
            )
            reason = each.removeReason()
            found[info.id] = (info, str(reason.get()) if reason.isDefined() else "")
        return found

    def _is_dynamic(self) -> bool:
        conf = self._context.getConf()
        return conf.get("spark.dynamicAllocation.enabled", "false") == "true"

    def _sequence(self, items: Iterable[Any]) -> Any:
        listed = self._jvm.java.util.ArrayList()
        for item in items:
            listed.add(item)
        converters = self._jvm.scala.jdk.javaapi.CollectionConverters
        return converters.asScala(listed).toSeq()
