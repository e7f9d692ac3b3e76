"""The controller decides: what becomes of each job, which checkpoint is taken when, who runs it.

Pure rules: `step.py` (one file per state below `states/`), `live.py`, `drain.py`, `coordinator.py`,
`checkpointing.py`: no clock, storage, threads or randomness. The edge: `perform.py`, `runner.py`,
`link.py`, `fleet.py`, `job_store.py`, `controller.py`. Never imports the engine or Spark.
Read `step.py` first.
"""
