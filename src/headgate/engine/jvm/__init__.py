"""Spark's JVM and its Python workers: found, started, warmed, kept alive, ended.

Nothing here knows of a pipeline. Read `session.py` first.
"""
