"""Actions become effects: storage, slots, workers. Read `perform.py` first."""
