"""Statements to a drafted graph. Read `select.py` first, then `relation.py`."""
