"""What happens next to a job: pure. `step.py` dispatches, `states/` has one file per state."""
