"""Rows as JSON lines on the worker's standard output."""
