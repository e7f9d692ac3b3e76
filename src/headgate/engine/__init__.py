"""The data plane: a pipeline graph as Spark micro-batches, inside one worker process.

Decides nothing about checkpoints: it cuts where the controller says, and reports. May not import
`controller`; they share `core/messages.py`. Read `worker/` first (the process and what it decides),
then `batch/microbatch.py` (one Spark action) and `operators/window.py` (one stateful operator).
"""
