"""Adapters of the port `core.ports.ObjectStore`: local files, S3, memory.

`opening.py` chooses one by URL. A store is pickled as its URL, so it can travel into tasks.
"""

from headgate.storage.counting import CountingStore, RequestCounts
from headgate.storage.opening import has_objects, job_folder, open_store, place_of
from headgate.storage.prefix import PrefixStore
from headgate.storage.retrying import RetryingStore, RetryPolicy
from headgate.storage.side_by_side import side_by_side

__all__ = [
    "CountingStore",
    "PrefixStore",
    "RequestCounts",
    "RetryPolicy",
    "RetryingStore",
    "has_objects",
    "job_folder",
    "open_store",
    "place_of",
    "side_by_side",
]
