"""The join with a table that is looked up. Pure: `spec.py`, `draft.py`; on Spark: the rest."""
