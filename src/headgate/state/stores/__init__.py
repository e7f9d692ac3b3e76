"""Adapters of the port `core.ports.ObjectStore` over obstore: local files, S3, memory.

`opening.py` chooses one by URL. A store is pickled as its URL, so it can travel into tasks.
"""

from headgate.state.stores.counting import CountingStore, RequestCounts
from headgate.state.stores.opening import job_store, open_store
from headgate.state.stores.prefix import PrefixStore
from headgate.state.stores.retrying import RetryingStore, RetryPolicy

__all__ = [
    "CountingStore",
    "PrefixStore",
    "RequestCounts",
    "RetryPolicy",
    "RetryingStore",
    "job_store",
    "open_store",
]
