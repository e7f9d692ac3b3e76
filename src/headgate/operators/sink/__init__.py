"""Stages what a connector will publish. Pure: `spec.py`; on Spark: the rest."""
