"""The deterministic simulation: one seed drives clock, messages, storage and crashes.

Real: the rules, the coordinator, `apply_event` and `perform`, the checkpoint protocol, the
loading plan, retention, retries, the worker's epoch ledger and watermark. Simulated: time,
network, object store, database, worker and controller processes, the targets of sinks. Read
`world.py` first, then `checks.py` (what must always hold) and `faults.py` (what goes wrong);
`docs/simulation.md` explains it to a person.
"""
