"""What a job's generations are called on a Spark cluster, where people and later generations look.

The state they write to is part of the name: two services may have jobs of the same name.
"""

from __future__ import annotations

import hashlib
import re

from headgate.core.ids import Generation, JobId


def application_name(job: JobId, generation: Generation, place: str) -> str:
    """Return the name of a generation whose state is in that place (`storage.place_of`)."""
    digest = hashlib.sha256(place.encode()).hexdigest()[:8]
    return f"headgate {job}, generation {generation}, state {digest}"


def is_forerunner(name: str, job: JobId, generation: Generation, place: str) -> bool:
    """Whether an application is an earlier generation of the job: fenced, whatever it does."""
    found = re.search(r", generation (\d+), state ", name)
    if found is None or int(found[1]) >= generation:
        return False
    return name == application_name(job, Generation(int(found[1])), place)
