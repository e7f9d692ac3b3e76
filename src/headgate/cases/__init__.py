"""Tests of users' pipelines: rows given, rows expected, and the same answer under kills.

Decides what a case file means, runs its cases in a given Spark session (`headgate.rehearsal`) and
compares. Prints nothing and parses no arguments: that is `cli/local/test.py`. May not import the
command line. Read document.py first, then running.py.
"""
