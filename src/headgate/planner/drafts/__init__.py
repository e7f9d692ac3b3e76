"""What the drafts of all kinds share, and what the planner asks of them.

The draft of a kind is `draft.py` in its folder of `headgate/operators`. It may import from here and
from the planner's modules about text and types, not from those that make drafts or go over
them: `lower/`, `optimize/`, `ids.py`, `build.py`. Read `draft.py` first.
"""
