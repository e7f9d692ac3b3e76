"""Folders that `headgate new` copies: data, a pipeline, its test, and what to type.

They are files of this package, so that an installed Headgate has them, and no Python of ours: a
test plans and runs each as it is copied.
"""
