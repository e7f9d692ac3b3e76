"""The data plane: a pipeline graph as Spark micro-batches, inside one worker process.

Decides nothing about checkpoints: it cuts where the controller says, and reports. May not import
`controller`; they share `core/messages.py`. Read `worker.py` first (the process), then `loop.py`
(what happens in which order), `microbatch.py` (one Spark action) and `operators/window.py`
(one stateful operator).
"""
