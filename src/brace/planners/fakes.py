"""Fake planners for rehearsals and tests: real waiting, no real thinking. All are called `fake-…`.

Each wraps another planner (by default the proxy's) or writes a given text, and misbehaves in one way.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from brace.context import Tokenizer, WordTokenizer
from brace.errors import ConfigError
from brace.planners.base import Limits, Planner, Prompt
from brace.registry import planners


class _Fake:
    """Writes `text`, or what the planner called `inner` writes, one character after another."""

    def __init__(self, text: str = "", inner: str = "proxy-symbolic") -> None:
        self._text = text
        self._inner: Planner | None = None if text else planners.create(inner)
        self.tokenizer: Tokenizer = self._inner.tokenizer if self._inner else WordTokenizer()

    def _answer(self, prompt: Prompt, limits: Limits) -> str:
        if self._inner is None:
            return self._text
        return "".join(piece for piece in self._inner.stream(prompt, limits) if isinstance(piece, str))


@planners.register("fake-fixed")
class FixedLatency(_Fake):
    """Takes `prefill_ms + tokens · ms_per_token` to its first piece, then `decode_ms` over the text."""

    name = "fake-fixed"

    def __init__(
        self,
        prefill_ms: float = 10.0,
        ms_per_token: float = 0.0,
        decode_ms: float = 5.0,
        text: str = "",
        inner: str = "proxy-symbolic",
    ) -> None:
        if min(prefill_ms, ms_per_token, decode_ms) < 0:
            raise ConfigError("planner 'fake-fixed': times must be 0 or more")
        super().__init__(text, inner)
        self._prefill_ms, self._ms_per_token, self._decode_ms = prefill_ms, ms_per_token, decode_ms

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """Wait, then write in up to eight pieces."""
        if not _sleep((self._prefill_ms + prompt.tokens * self._ms_per_token) / 1e3, limits):
            return
        text = self._answer(prompt, limits)
        size = max(1, -(-len(text) // 8))
        starts = range(0, len(text), size)
        for start in starts:
            yield text[start : start + size]
            if not _sleep(self._decode_ms / 1e3 / len(starts), limits):
                return


@planners.register("fake-heavy-tail")
class HeavyTail(_Fake):
    """Log-normal times around a median that grows with the prompt, as shared servers show them."""

    name = "fake-heavy-tail"

    def __init__(
        self,
        median_ms: float = 20.0,
        ms_per_token: float = 0.0,
        sigma: float = 0.8,
        seed: int = 0,
        text: str = "",
        inner: str = "proxy-symbolic",
    ) -> None:
        if median_ms <= 0 or min(ms_per_token, sigma) < 0:
            raise ConfigError("planner 'fake-heavy-tail': median_ms must be > 0, the others 0 or more")
        super().__init__(text, inner)
        self._random = random.Random(seed)
        self._median_ms, self._ms_per_token, self._sigma = median_ms, ms_per_token, sigma

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """Wait long or short, then write all at once."""
        median_ms = self._median_ms + self._ms_per_token * prompt.tokens
        if _sleep(median_ms / 1e3 * self._random.lognormvariate(0.0, self._sigma), limits):
            yield self._answer(prompt, limits)


@planners.register("fake-failing")
class Failing(_Fake):
    """Raises on every `every`-th call."""

    name = "fake-failing"

    def __init__(self, every: int = 1, text: str = "", inner: str = "proxy-symbolic") -> None:
        if every < 1:
            raise ConfigError(f"planner 'fake-failing': every = {every} must be 1 or more")
        super().__init__(text, inner)
        self._every = every
        self._calls = 0

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """A dead server."""
        self._calls += 1
        if self._calls % self._every == 0:
            raise ConnectionError("the fake server is down")
        yield self._answer(prompt, limits)


@planners.register("fake-hanging")
class Hanging(_Fake):
    """Never answers and does not listen to cancellation, for `seconds`."""

    name = "fake-hanging"

    def __init__(self, seconds: float = 3600.0) -> None:
        if seconds < 0:
            raise ConfigError(f"planner 'fake-hanging': seconds = {seconds} must be 0 or more")
        super().__init__("never()")
        self._seconds = seconds

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """Sleep through everything."""
        time.sleep(self._seconds)
        yield self._answer(prompt, limits)


@planners.register("fake-garbage")
class Garbage(_Fake):
    """Answers at once, with anything but a plan."""

    name = "fake-garbage"

    def __init__(self, text: str = "Sure! Here is the plan: first, we ...") -> None:
        super().__init__(text or " ")

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """Chatter."""
        yield self._answer(prompt, limits)


def _sleep(seconds: float, limits: Limits) -> bool:
    """Sleep, but no longer than anyone waits; False when nobody does any more."""
    until = time.perf_counter() + seconds
    while (left := until - time.perf_counter()) > 0:
        if limits.expired():
            return False
        time.sleep(min(left, 0.002))
    return True
