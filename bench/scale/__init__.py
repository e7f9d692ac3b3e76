"""What a job costs by its size: see `__main__.py`."""
