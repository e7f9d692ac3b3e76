"""Any Spark SQL over its inputs, without state. Pure: `spec.py`, `draft.py`; on Spark: the rest."""
