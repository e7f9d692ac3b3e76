"""Tables of a Postgres database: written exactly once, and asked by key.

`config.py`, `types.py` and `lives.py` are pure; `encode.py` runs in Spark's tasks; the rest talks
to the server. Read `sink.py` first: its docstring says why a publish can be repeated.
"""
