"""`make demo`: a pipeline that is killed twice and damaged once, and comes out exact.

`__main__.py` tells the story and breaks things; `story.py` counts what happened; `verify.py`
computes the truth as a batch.
"""
