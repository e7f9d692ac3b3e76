"""One micro-batch: a pure function from a state version and source ranges to the next version.

Read `microbatch.py` first.
"""
