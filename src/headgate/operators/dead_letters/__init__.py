"""The rows that a source could not read. Pure: `spec.py`, `draft.py`; on Spark: the rest."""
