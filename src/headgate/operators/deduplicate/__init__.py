"""The first row of every key. Pure: `spec.py`; on Spark: the rest."""
