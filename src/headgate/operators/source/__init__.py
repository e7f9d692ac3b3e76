"""Rows of a connector table, with their time. Pure: `spec.py`, `draft.py`; on Spark: the rest."""
