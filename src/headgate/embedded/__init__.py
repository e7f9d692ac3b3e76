"""The whole system in one process: what `headgate run` and `Pipeline.run` share.

Knows the components, never the command line. Read `running.py` first.
"""
