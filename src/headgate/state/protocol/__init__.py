"""The checkpoint protocol: the layout, the records, and the order in which they are written.

Read `writes.py` first: it is the one home of the order of writes.
"""
