"""Workers on other machines: nodes that have joined this controller, and what is said over a link.

`session.py` and `placement.py` are pure; the others connect them to threads and sockets.
"""
