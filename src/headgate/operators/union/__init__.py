"""All rows of several inputs. Pure: `spec.py`, `draft.py`; on Spark: the rest."""
