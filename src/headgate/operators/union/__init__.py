"""All rows of several inputs. Pure: `spec.py`; on Spark: `build.py`."""
