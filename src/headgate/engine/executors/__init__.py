"""Spark's executors on other hosts: whether they can run the job, and which there are.

Decides what an executor must have, compares it with the driver, and watches who comes and goes.
`compare.py` is pure. `facts.py` and `headgate_daemon.py` run on executors that may have nothing but
Python and Spark: they import the standard library only. Read `watch.py` first.
"""
