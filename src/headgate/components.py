"""Builds the real parts, once: clock, stores, fleet."""
