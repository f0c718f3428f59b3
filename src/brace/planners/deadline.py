"""A deadline as a context manager: it starts on entering, can be cancelled, and knows how late it is."""

from __future__ import annotations

import math
import threading
import time
from types import TracebackType


class Deadline:
    """`with Deadline(800) as deadline:` gives the block 800 ms of wall time; None gives it for ever.

    It does not interrupt the block: long work asks `expired()` or waits through `wait()`. Cancelling from
    another thread wakes whoever waits.
    """

    def __init__(self, ms: float | None) -> None:
        self.limit_ms = math.inf if ms is None else ms
        self.cancelled_by: str | None = None
        self._wake = threading.Condition()
        self._start = time.perf_counter()
        self._end: float | None = None

    def __enter__(self) -> Deadline:
        self._start, self._end = time.perf_counter(), None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end = time.perf_counter()

    def elapsed_ms(self) -> float:
        """Since it was entered; after the block, how long the block took."""
        return ((self._end or time.perf_counter()) - self._start) * 1e3

    def remaining_s(self) -> float:
        """Seconds left; negative once it is past, infinite without a limit."""
        return (self.limit_ms - self.elapsed_ms()) / 1e3

    def expired(self) -> bool:
        """Past, or cancelled."""
        return self.cancelled_by is not None or self.remaining_s() <= 0

    def cancel(self, cause: str) -> None:
        """End it now, whoever waits for it."""
        with self._wake:
            self.cancelled_by = self.cancelled_by or cause
            self._wake.notify_all()

    def wait(self, done: threading.Event, poll_s: float = math.inf) -> bool:
        """Wait until `done` is set (whoever sets it calls `wake`), the deadline passes or `poll_s` ends."""
        until = time.perf_counter() + poll_s
        with self._wake:
            while not done.is_set() and not self.expired():
                left = min(self.remaining_s(), until - time.perf_counter())
                if left <= 0:
                    break
                # Infinity is more seconds than a condition can wait for.
                self._wake.wait(None if math.isinf(left) else left)
        return done.is_set()

    def wake(self) -> None:
        """Let waiters look again."""
        with self._wake:
            self._wake.notify_all()
