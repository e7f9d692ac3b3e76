"""The words every layer shares: ids, the pipeline graph, checkpoint facts, messages, errors, ports.

Pure: imports no clock, storage, Spark or randomness. Read `graph.py` first (what runs), then
`checkpoint.py` (what is remembered), then `messages.py` (what controller and worker say).
"""
