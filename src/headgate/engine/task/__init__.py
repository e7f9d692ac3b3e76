"""What runs inside Spark's tasks: Arrow in, Arrow out, state in tables.

Read `subtask.py` first: it opens the state version, runs the operator and reports the new version.
An operator itself (`headgate/operators/*/task.py`) only decides what to keep and what to emit.
"""
