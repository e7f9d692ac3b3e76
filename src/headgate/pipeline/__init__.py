"""Pipelines written in Python.

Decides how calls become the statements that the planner reads: a pipeline in Python is its SQL
text, so both have the same graph, the same operator ids and the same state. It computes nothing
itself, and imports no Spark. Read `builder.py` first.
"""

from headgate.pipeline.builder import Pipeline

__all__ = ["Pipeline"]
