"""Values that SQL names and does not hold: `'{{ NAME }}'` is what the environment says it is.

Options are part of a pipeline's graph, which is stored, shown and logged. So an option that is a
secret must be written as a name. The name is replaced where a connection is opened, in the worker,
and the value goes no further than the tasks that connect. `Secrets` also takes the values out of
the texts of other people's errors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator

from headgate.core.errors import UserError

_NAMED = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
# What of the name of an option of somebody's client says that its value is a secret.
_SECRET_WORDS = ("password", "secret", "token", "key.pem", "sasl.jaas")
_MASK = "***"
# A value this short would be found in half of all texts.
_SCRUBBED_CHARACTERS_MIN = 4


def _only_named(value: str) -> str:
    if not _NAMED.search(value):
        raise ValueError(
            "a secret must not be part of a pipeline: write '{{ NAME }}', and set the environment "
            "variable NAME where the job runs"
        )
    return value


# An option that is a secret: its value has to be the name of one.
Secret = Annotated[str, AfterValidator(_only_named)]


def is_secret_name(option: str) -> bool:
    """Return whether the value of a client's option is a secret, by the option's name."""
    return any(word in option.lower() for word in _SECRET_WORDS)


def check_named(option: str, value: str) -> str:
    """Return the value of a client's option; raise `ValueError` if it is a secret in plain text."""
    return _only_named(value) if is_secret_name(option) else value


class Secrets:
    """The values of one connector's options as they are where this runs."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._values: set[str] = set()

    def __getstate__(self) -> dict[str, object]:
        # What was resolved travels to the tasks; the environment of this process does not.
        return {"_environment": {}, "_values": self._values}

    def resolve(self, option: str, text: str) -> str:
        """Return the text with every `{{ NAME }}` replaced, or raise `UserError`."""

        def value(match: re.Match[str]) -> str:
            found = self._environment.get(match[1])
            if found is None:
                raise UserError(
                    f"option '{option}' is {match[0]}, but the environment variable {match[1]} is "
                    "not set where the job runs: set it for the process that runs Headgate, and "
                    "start the job again",
                    code="secret",
                )
            self._values.add(found)
            return found

        return _NAMED.sub(value, text)

    def scrub(self, text: str) -> str:
        """Return the text without the values that were resolved so far."""
        for value in sorted(self._values, key=len, reverse=True):
            if len(value) >= _SCRUBBED_CHARACTERS_MIN:
                text = text.replace(value, _MASK)
        return text
