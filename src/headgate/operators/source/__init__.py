"""Rows of a connector table, with their event time. Pure: `spec.py`; on Spark: `build.py`."""
