"""What a simulation is there to find."""

from __future__ import annotations


class Violation(BaseException):
    """Something happened that must never happen. `rule` names the promise that was broken.

    Not an Exception, so that no boundary of the code under test turns it into an event.
    """

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule
        self.detail = detail
