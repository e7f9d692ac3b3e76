"""The states of a job, one file each: its data, how it is entered, and the rule of what comes next.

Pure. The return annotation of a rule names the states that may follow; the diagram in
`docs/state-machine.md` is generated from them. Read `running.py` first, then `recovering.py`.
"""
