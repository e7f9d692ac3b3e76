"""The benchmark: Headgate and its peers, one after the other, on the same files and cores.

`python -m bench --quick` takes under ten minutes, `python -m bench` runs everything; both print one
table and write `docs/benchmarks.md`. Every measured run is a process of its own that ends with one
JSON file (`results.py`); every result is compared with a batch computation (`check.py`). Read
`suite.py` first (what is run), then `headgate_runs.py` and `peers/`.
"""
