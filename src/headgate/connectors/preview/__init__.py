"""The rows of a bare SELECT, for the terminal or the console."""
