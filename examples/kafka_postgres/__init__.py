"""`make demo-kafka`: from Kafka to Kafka and Postgres, with everything killed once, and exact.

`pipeline.sql` is the pipeline; `orders.py` writes orders and knows the answer; `__main__.py` tells
the story and breaks things. The servers are those of the tests.
"""
