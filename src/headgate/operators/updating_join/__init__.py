"""The join of two streams, both sides kept. Pure: `spec.py`, `draft.py`; on Spark: the rest."""
