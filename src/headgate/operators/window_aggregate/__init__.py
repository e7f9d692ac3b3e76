"""Tumbling, hopping and session windows. Pure: `spec.py`; on Spark: the rest."""
