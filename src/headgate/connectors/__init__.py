"""Connectors: where rows come from and where they go. One folder each.

`config.py` of a connector is pure (options, validated) and `connector.py` has its descriptor;
`source.py`, `sink.py` and `lookup.py` are its runtime half, and only there is PySpark imported.
Read `base.py` first: it is the contract; then `registry.py`, which finds a connector by name.
`api.py` is what connectors outside the project may import.
"""
