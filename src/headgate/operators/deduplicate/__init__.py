"""The first row of every key. Pure: `spec.py`, `draft.py`; on Spark: the rest."""
