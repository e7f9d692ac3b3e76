"""Expressions and a filter over one input. Pure: `spec.py`, `draft.py`; on Spark: the rest."""
