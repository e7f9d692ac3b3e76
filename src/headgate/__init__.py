"""Headgate: streaming SQL pipelines on Apache Spark, recovered exactly once."""

__version__ = "0.1.0"
