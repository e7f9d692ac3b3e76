"""What a job's generations are called on a Spark cluster, where people and later generations look.

The state they write to is part of the name: two services may have jobs of the same name.
"""

from __future__ import annotations

import hashlib
import re

from headgate.core.ids import Generation, JobId


def application_name(job: JobId, generation: Generation, state_url: str) -> str:
    return f"headgate {job}, generation {generation}, state {_digest(state_url)}"


def is_forerunner(name: str, job: JobId, generation: Generation, state_url: str) -> bool:
    """Whether an application is an earlier generation of the job: fenced, whatever it does."""
    found = re.search(r", generation (\d+), state ", name)
    if found is None or int(found[1]) >= generation:
        return False
    return name == application_name(job, Generation(int(found[1])), state_url)


def _digest(state_url: str) -> str:
    return hashlib.sha256(state_url.rstrip("/").encode()).hexdigest()[:8]
