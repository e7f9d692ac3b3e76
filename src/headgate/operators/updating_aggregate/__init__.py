"""GROUP BY without a window. Pure: `spec.py`; on Spark: the rest."""
