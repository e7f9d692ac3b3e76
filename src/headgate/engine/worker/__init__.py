"""One generation of one job inside its process: what it decides, and the loop around that.

`__main__.py` is the process, `generation.py` the life of a generation in it.
"""
