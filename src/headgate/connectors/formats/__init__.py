"""How rows look outside: json, debezium_json, csv, raw_string, parquet.

`options.py` is pure. `decode.py` (text to typed columns, on the JVM) imports PySpark;
`text.py`, `json_encode.py` and `encode.py` (Arrow to bytes) need only PyArrow.
"""
