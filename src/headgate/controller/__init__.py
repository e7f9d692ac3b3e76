"""The controller decides: what becomes of each job, which checkpoint is taken when, who runs it.

Pure: `rules/` (what happens next to a job) and `checkpoints/` (what happens next to a checkpoint),
without clock, storage, threads or randomness. Edge: `effects/`, `processes/`, `store/`.
`applying.py` and `runner.py` drive one job, `controller.py` all of them. Never imports the engine
or Spark. Read `rules/step.py` first.
"""
