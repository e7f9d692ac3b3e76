"""Commands that plan and run a pipeline on this machine. Read `run.py` first."""
