"""Tumbling, hopping and session windows. Pure: `spec.py`, `draft.py`; on Spark: the rest."""
