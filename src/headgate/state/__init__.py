"""What a job remembers: the object layout, its records, and the order in which they are written.

Decides which checkpoint counts, what a restore is given and what may be deleted. Imports neither
Spark nor the controller; times and ids are arguments. Read `protocol/layout.py` first (where things
are), then `protocol/writes.py` (the order of writes), then `recovery/backend.py` (reading it back).
"""
