"""Expressions and a filter over one input. Pure: `spec.py`; on Spark: `build.py`."""
