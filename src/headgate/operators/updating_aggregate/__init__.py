"""GROUP BY without a window. Pure: `spec.py`, `draft.py`; on Spark: the rest."""
