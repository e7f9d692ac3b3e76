"""Any Spark SQL over its inputs, without state. Pure: `spec.py`; on Spark: `build.py`."""
