"""What may be deleted, and in which order. Read `retention.py` first."""
