"""The join of two streams, both sides kept. Pure: `spec.py`; on Spark: the rest."""
