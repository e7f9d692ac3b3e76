"""From graph to DataFrame, on the driver: the plan of a micro-batch and what builds it.

Read `builder.py` first. What each kind of operator adds is in its folder in `headgate/operators`.
"""
