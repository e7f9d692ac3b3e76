"""Random queries over random rows agree with Spark's batch answer: `python -m tests.fuzz`."""
