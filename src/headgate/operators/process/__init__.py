"""The user's code over keyed state and timers. Pure: `spec.py`, `draft.py`; on Spark: the rest."""
