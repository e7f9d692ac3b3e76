"""The join with a table that is looked up. Pure: `spec.py`; on Spark: `build.py`."""
