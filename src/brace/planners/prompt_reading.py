"""Reading a prompt before a deadline, and keeping what was read for the next call.

The deadline is looked at before every part of every layer, so that a long reading stops in time. Of a reading
that was cut short the finished pieces are kept: a planner whose deadline is too near to read a long prompt at
once comes further with every call.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from brace.erecap import Backbone, Context, Engine, Reading, Session
from brace.erecap.schedule import HEAD, protected
from brace.planners.base import Limits
from brace.planners.prompt_tokens import PromptTokens

PIECE, LEAST_PIECE = 512, 16
"""A prompt is read in at most so many tokens at a time, fewer when not one piece was finished; one that is
pruned as a whole is an exception."""
LEAST_SHARED = 0.5
"""A prompt that shares less than this part of the old one is read anew: little would be saved, and what
pruned caches hold was chosen for another text."""
LEAST_LIMIT = 0.5
"""Caches that were pruned to less than this part of what may be held now are read anew."""


class TimeUp(Exception):  # noqa: N818 - no error: it ends a reading nobody waits for
    """The deadline passed while the prompt was being read."""


class PromptReader:
    """One engine and at most one prompt's caches."""

    def __init__(self, engine: Engine, *, reuse: bool, evict: bool = True, compact_to: float = 1.0) -> None:
        """`reuse` keeps the caches for the next call. What is over the budget then leaves them (`evict`), or
        the prompt is read anew, pruned to this share of it, so that the next calls need only read on."""
        self._engine, self._reuse, self._compact_to = engine, reuse, compact_to
        self._evict = evict and reuse
        # What to read anew is decided here, for here the old caches go first.
        self._session = Session(engine, evict=self._evict, least_shared=0.0)
        self._pruned_to: int | None = None
        """The budget that the session was last pruned to; None while all it has read is there."""
        self._piece = PIECE

    @property
    def context(self) -> Context:
        """What was read last, to write from."""
        return self._session.context

    def read(self, prompt: PromptTokens, budget: int | None, limits: Limits, *, whole_lines: bool) -> Reading:
        """Read the prompt; at most `budget` tokens of it stay in the last layer. TimeUp if cut short."""
        self._prepare(prompt.ids, budget)
        segments = prompt.segments if whole_lines else None
        readings: list[Reading] = []
        try:
            with _stopping(self._engine.backbone, limits):
                for end in self._ends(prompt, budget, whole_lines):
                    readings.append(self._read_to(end, prompt, budget, segments))  # noqa: PERF401 - kept if it stops
        except TimeUp:
            if not readings:
                self._piece = max(LEAST_PIECE, self._piece // 2)
            raise
        self._piece = min(PIECE, 2 * self._piece)
        return replace(
            readings[-1],
            tokens_cached=readings[0].tokens_cached,
            tokens_read=sum(reading.tokens_read for reading in readings),
        )

    def _prepare(self, ids: list[int], budget: int | None) -> None:
        """Leave of the session what the new prompt begins with, if that is worth while.

        An old session goes before a new one is read: there are never two of them in memory.
        """
        held, shared = self._session.ids, self._session.shared_with(ids)
        too_little_left = self._pruned_to is not None and (
            budget is None or self._pruned_to < LEAST_LIMIT * min(budget, len(ids))
        )
        if not self._reuse or too_little_left or shared < LEAST_SHARED * len(held):
            self._reset()
        elif held:
            self._session.forget_from(shared)

    def _ends(self, prompt: PromptTokens, budget: int | None, whole_lines: bool) -> list[int]:
        """Where each piece ends. A prompt that is too long is refused, not read in pieces."""
        start, end, piece = len(self._session.ids), len(prompt.ids), self._piece
        if end > self._engine.backbone.max_positions:
            return [end]
        if budget is not None and end > budget:
            evictable = self._evict and self._engine.scorer.cacheable and not whole_lines
            # A text is best pruned as a whole, unless that took too long before.
            if not evictable or (start == 0 and piece == PIECE):
                return [end]
            # News that leave no room for floors are taken in bit by bit.
            if end - start > budget - HEAD - sum(prompt.floor[:start]):
                piece = min(piece, max(LEAST_PIECE, 3 * (budget - HEAD - sum(prompt.floor)) // 4))
        pieces = max(1, math.ceil((end - start) / piece))
        return [start + (end - start) * number // pieces for number in range(1, pieces + 1)]

    def _read_to(
        self, end: int, prompt: PromptTokens, budget: int | None, segments: list[int] | None
    ) -> Reading:
        # A compaction never goes below what may not be cut.
        fixed = protected(len(prompt.ids), sum(prompt.floor))
        target = None if budget is None else min(budget, max(int(self._compact_to * budget), fixed))
        self._session.limit(budget, target)
        # Also when it is cut short: room may have been made by then.
        self._pruned_to = budget if budget is not None and end > budget else self._pruned_to
        try:
            return self._session.read(
                prompt.ids[:end],
                floor=prompt.floor[:end],
                segments=None if segments is None else segments[:end],
            )
        except BaseException as error:
            # The session stands as it was before, which is of use to a next call that has more time.
            if not self._session.ids or not isinstance(error, TimeUp):
                self._reset()
            raise

    def _reset(self) -> None:
        self._session.reset()
        self._pruned_to = None


@contextmanager
def _stopping(backbone: Backbone, limits: Limits) -> Iterator[None]:
    """Within the block, TimeUp is raised once time is up, before the next part of a layer is computed."""

    def check() -> None:
        if limits.expired():
            raise TimeUp

    before, backbone.check = backbone.check, check
    try:
        yield
    finally:
        backbone.check = before
