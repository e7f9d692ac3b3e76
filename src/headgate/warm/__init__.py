"""A process with Spark that is up and runs one query after another.

A prompt and the previews of a service want rows within a second, and may not be ended by what ends
a query: `worker.py` is their end, `host.py` is the process, `messages.py` what the two say.
Checkpoints are of nobody's interest here: state lies in a folder that goes with the query.
"""
