"""Commands that look into stored checkpoints. None of them needs a running service."""
