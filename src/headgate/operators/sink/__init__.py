"""Stages what a connector will publish. Pure: `spec.py`, `draft.py`; on Spark: the rest."""
