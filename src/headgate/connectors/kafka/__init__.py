"""Topics of Apache Kafka: read by offset ranges, written exactly once in transactions.

Read `cuts.py` for what a position is, `publishing.py` for why a publish happens once.
"""
