"""The schema of the job store, revision by revision, in Alembic's way. Read `upgrade.py` first.

A new revision is a file in `versions/` with the next number, and `NEWEST` below. A revision that
was released is never edited: databases out there have been through it.
"""

# What `versions/` ends with. Known without Alembic, which most starts need not import.
NEWEST = "0003"
