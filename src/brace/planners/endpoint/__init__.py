"""The parts of the planner `openai`. Here: what can go wrong at an endpoint, and how long it is waited for.

`wire` posts requests, `answers` reads what comes back, `counting` counts the model's tokens. `wire` needs the
extra, and this part is imported without it.
"""

from __future__ import annotations

import math
import time

from brace.errors import BraceError
from brace.planners.base import Limits


class EndpointError(BraceError):
    """The endpoint did not give what was asked for; another try would end the same way."""


class PassingError(EndpointError):
    """Something that may be over in a moment: a lost connection, a busy server."""

    def __init__(self, problem: str, pause_s: float = 0.0) -> None:
        super().__init__(problem)
        self.pause_s = pause_s
        """How long to leave it alone."""


class TimeIsUpError(Exception):
    """Nobody waits for the answer any more: not a fault of the endpoint."""


class Patience:
    """Limits that can be drawn closer: the call's own (if any), and at most so many seconds from now."""

    def __init__(self, limits: Limits | None = None, at_most_s: float = math.inf) -> None:
        self._limits = limits
        self.at_most(at_most_s)

    def at_most(self, seconds: float) -> None:
        """Wait no longer than this from now on."""
        self._end = time.perf_counter() + seconds

    def expired(self) -> bool:
        """Past, or nobody waits any more."""
        return self.remaining_s() <= 0 or (self._limits is not None and self._limits.expired())

    def remaining_s(self) -> float:
        """Seconds left."""
        ours = self._end - time.perf_counter()
        return ours if self._limits is None else min(ours, self._limits.remaining_s())


def shown(text: str, secret: str = "", most: int = 200) -> str:
    """As much of a server's words as a message can bear, on one line and without the secret."""
    line = " ".join((text.replace(secret, "…") if secret else text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
