"""Checkpoints in flight, as pure rules: when one starts, its phases, what each answer does to it.

Read `coordinator.py` (when), `phases.py` (what is waited for), `advance.py` (what an answer does).
"""
