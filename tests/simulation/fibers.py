"""Real synchronous code, suspended in the middle and resumed by the simulation.

A fiber is a thread of which only one ever runs: control is handed over with locks. So the real
protocol code can be stopped between any two storage requests, another process can act, and the
order is decided by the seed alone. Threads are kept for the next fiber: starting one is slow.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Killed(BaseException):
    """The process is gone. Not an Exception, so that nothing on the way out can keep it alive."""


class _Carrier:
    """A thread that runs one fiber after the other."""

    def __init__(self) -> None:
        self.go = threading.Lock()
        self.back = threading.Lock()
        self.go.acquire()
        self.back.acquire()
        self.body: Callable[[], None] | None = None
        threading.Thread(target=self._loop, name="fiber", daemon=True).start()

    def _loop(self) -> None:
        while True:
            self.go.acquire()
            body = self.body
            assert body is not None
            body()
            self.back.release()


_idle: list[_Carrier] = []
_stack: list[Fiber] = []


def current() -> Fiber | None:
    """Return the fiber that runs now; None = the scheduler itself."""
    return _stack[-1] if _stack else None


class Fiber:
    """A piece of code that may call `suspend`."""

    def __init__(self, body: Callable[[], None]) -> None:
        self._body = body
        self._carrier = _idle.pop() if _idle else _Carrier()
        self._carrier.body = self._run
        self._poisoned = False
        self._error: BaseException | None = None
        self.started = False
        self.done = False

    def _run(self) -> None:
        try:
            if not self._poisoned:
                self._body()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001  handed to whoever resumed the fiber
            self._error = error
        self.done = True

    def resume(self) -> None:
        """Run until the next `suspend`, or to the end. Errors of the body are raised here."""
        assert not self.done
        self.started = True
        carrier = self._carrier
        _stack.append(self)
        carrier.go.release()
        carrier.back.acquire()
        _stack.pop()
        if self.done:
            _idle.append(carrier)
            if self._error is not None:
                raise self._error

    def suspend(self) -> None:
        """Give control back; returns when resumed, raises `Killed` when killed meanwhile."""
        self._carrier.back.release()
        self._carrier.go.acquire()
        if self._poisoned:
            raise Killed

    @property
    def poisoned(self) -> bool:
        return self._poisoned

    def kill(self) -> None:
        """End the fiber where it stands. The running fiber must raise `Killed` by itself."""
        self._poisoned = True
        if not self.done and self not in _stack:
            self.resume()
