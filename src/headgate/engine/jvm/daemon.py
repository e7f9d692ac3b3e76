"""The parent of Spark's Python workers, as the JVM starts it: `spark.python.daemon.module`.

On the driver's own machine a process that has imported everything already takes over
(`handover.py`), and this one only waits for its end. Elsewhere, and when that one is gone, the
imports are done here.
"""

from __future__ import annotations

from headgate.engine.jvm.handover import hand_over

if __name__ == "__main__" and not hand_over():
    from headgate.engine.jvm.preloaded import serve

    serve()
