"""Types of expressions before anything is started: what Spark would refuse is refused here.

Decides whether a function has so many arguments and takes these types. What is not known is never
refused: a wrong refusal is worse than an error that Catalyst finds later. Pure: no Spark. What
Spark takes was asked of Spark itself (`facts.json`). Read `check.py` first.
"""
