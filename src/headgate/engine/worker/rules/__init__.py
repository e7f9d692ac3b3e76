"""What a worker decides, pure: `step(state, fact, now_ms) -> WorkerStep(state, actions)`.

No clock, no I/O, no Spark and no thread is in here; `loop.py` beside this folder is the edge that
takes facts in, performs actions, and decides nothing.

The way of a barrier: `step.py`, `barrier.py` (it is taken), `batches.py` (its cut and its
micro-batch), `acknowledging.py` (what is said about it), `publishing.py` (the commit that follows).
The way of a recovery: `resume.py`, from top to bottom.
"""
