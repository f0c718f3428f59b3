"""Fake planners for rehearsals and tests: real waiting, no real thinking. All are called `fake-…`.

Each wraps another planner (by default the proxy's) or writes a given text, and misbehaves in one way.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from brace.context import WordTokenizer
from brace.errors import ConfigError
from brace.planners.base import Limits, Planner, Prompt
from brace.registry import planners


@dataclass(eq=False, kw_only=True)
class _Fake(Planner):
    text: str = ""
    """What it writes; empty: what `inner` writes."""
    inner: str = "proxy-symbolic"
    """The planner that is asked where no text is given."""

    def __post_init__(self) -> None:
        self._inner: Planner | None = None if self.text else planners.create(self.inner)
        self.tokenizer = self._inner.tokenizer if self._inner else WordTokenizer()

    def _answer(self, prompt: Prompt, limits: Limits) -> str:
        if self._inner is None:
            return self.text
        return "".join(piece for piece in self._inner.stream(prompt, limits) if isinstance(piece, str))


@planners.register("fake-fixed")
@dataclass(eq=False)
class FixedLatency(_Fake):
    """Takes `prefill_ms + tokens · ms_per_token` to its first piece, then `decode_ms` over the text."""

    name = "fake-fixed"
    prefill_ms: float = 10.0
    """Milliseconds before the first piece, whatever the prompt's length: what a server needs to begin
    at all."""
    ms_per_token: float = 0.0
    """Milliseconds more for each token of the prompt."""
    decode_ms: float = 5.0
    """Milliseconds from the first piece to the end of the text."""

    def __post_init__(self) -> None:
        if min(self.prefill_ms, self.ms_per_token, self.decode_ms) < 0:
            raise ConfigError("planner 'fake-fixed': times must be 0 or more")
        super().__post_init__()

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """Wait, then write in up to eight pieces."""
        if not _sleep((self.prefill_ms + prompt.tokens * self.ms_per_token) / 1e3, limits):
            return
        text = self._answer(prompt, limits)
        size = max(1, -(-len(text) // 8))
        starts = range(0, len(text), size)
        for start in starts:
            yield text[start : start + size]
            if not _sleep(self.decode_ms / 1e3 / len(starts), limits):
                return


@planners.register("fake-heavy-tail")
@dataclass(eq=False)
class HeavyTail(_Fake):
    """Log-normal times around a median that grows with the prompt, as shared servers show them."""

    name = "fake-heavy-tail"
    median_ms: float = 20.0
    """The median for an empty prompt, milliseconds."""
    ms_per_token: float = 0.0
    """By how many milliseconds each token of the prompt raises the median."""
    sigma: float = 0.8
    """The standard deviation of the time's natural logarithm."""
    seed: int = 0
    """The same seed gives the same times."""

    def __post_init__(self) -> None:
        if self.median_ms <= 0 or min(self.ms_per_token, self.sigma) < 0:
            raise ConfigError("planner 'fake-heavy-tail': median_ms must be > 0, the others 0 or more")
        super().__post_init__()
        self._random = random.Random(self.seed)

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """Wait long or short, then write all at once."""
        median_ms = self.median_ms + self.ms_per_token * prompt.tokens
        if _sleep(median_ms / 1e3 * self._random.lognormvariate(0.0, self.sigma), limits):
            yield self._answer(prompt, limits)


@planners.register("fake-failing")
@dataclass(eq=False)
class Failing(_Fake):
    """Raises on every `every`-th call."""

    name = "fake-failing"
    every: int = 1
    """1: on every call."""

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ConfigError(f"planner 'fake-failing': every = {self.every} must be 1 or more")
        super().__post_init__()
        self._calls = itertools.count(1)

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """A dead server."""
        if next(self._calls) % self.every == 0:
            raise ConnectionError("the fake server is down")
        yield self._answer(prompt, limits)


@planners.register("fake-hanging")
@dataclass(eq=False)
class Hanging(Planner):
    """Never answers and does not listen to cancellation."""

    name = "fake-hanging"
    tokenizer = WordTokenizer()
    seconds: float = 3600.0
    """For so long."""

    def __post_init__(self) -> None:
        if self.seconds < 0:
            raise ConfigError(f"planner 'fake-hanging': seconds = {self.seconds} must be 0 or more")

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """Sleep through everything."""
        time.sleep(self.seconds)
        yield "never()"


@planners.register("fake-garbage")
@dataclass(eq=False)
class Garbage(Planner):
    """Answers at once, with anything but a plan."""

    name = "fake-garbage"
    tokenizer = WordTokenizer()
    text: str = "Sure! Here is the plan: first, we ..."
    """What it says."""

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """Chatter."""
        yield self.text or " "


def _sleep(seconds: float, limits: Limits) -> bool:
    """Sleep, but no longer than anyone waits; False when nobody does any more."""
    until = time.perf_counter() + seconds
    while (left := until - time.perf_counter()) > 0:
        if limits.expired():
            return False
        time.sleep(min(left, 0.002))
    return True
