"""Reading a prompt before a deadline, and keeping what was read for the next call.

The deadline is looked at before every part of every layer, so that a long reading stops in time. Of a reading
that was cut short the finished pieces are kept: a planner whose deadline is too near to read a long prompt at
once comes further with every call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from brace.erecap import AnyContext, Backbone, Engine, Reading, Session
from brace.erecap.schedule import protected
from brace.erecap.session import common_prefix
from brace.errors import ConfigError
from brace.planners.base import Limits
from brace.planners.prompt_tokens import PromptTokens

PIECE, LEAST_PIECE = 512, 16
"""An unpruned prompt is read in about so many tokens at a time; fewer when not one piece was finished."""
LEAST_SHARED = 0.5
"""A prompt that shares less than this part of the old one is read anew: little would be saved, and what
pruned caches hold was chosen for another text."""


class TimeUp(Exception):  # noqa: N818 - no error: it ends a reading nobody waits for
    """The deadline passed while the prompt was being read."""


class PromptReader:
    """One engine and at most one prompt's caches."""

    def __init__(self, engine: Engine, *, reuse: bool, compact_to: float = 1.0) -> None:
        """`reuse` keeps the caches for the next call; a prompt over its budget is then pruned to this share
        of it, so that the next calls need only read on."""
        self._engine, self._reuse, self._compact_to = engine, reuse, compact_to
        self._session: Session | None = None
        self._budget: int | None = None
        """What the session prunes to; None while everything fits."""
        self._held: list[int] = []
        """The prompt of the session, as far as it was read."""
        self._piece = PIECE

    @property
    def context(self) -> AnyContext:
        """What was read last, to write from."""
        if self._session is None:
            raise ConfigError("nothing has been read yet")
        return self._session.context

    def read(self, prompt: PromptTokens, budget: int | None, limits: Limits, *, whole_lines: bool) -> Reading:
        """Read the prompt; at most `budget` tokens of it stay in the last layer. TimeUp if cut short."""
        self._prepare(prompt.ids, budget if budget is not None and len(prompt.ids) > budget else None)
        segments = prompt.segments if whole_lines else None
        readings: list[Reading] = []
        try:
            with _stopping(self._engine.backbone, limits):
                for end in self._ends(prompt.ids):
                    readings.append(self._read_to(end, prompt, segments))  # noqa: PERF401 - kept if it stops
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

    def _prepare(self, ids: list[int], binding: int | None) -> None:
        """Leave of the session what the new prompt begins with, if that is worth while.

        What was pruned to one budget is no ground for another. An old session goes before a new one is read:
        there are never two of them in memory.
        """
        # At least the last token is read again: its logits are what comes next.
        shared = min(common_prefix(self._held, ids), len(ids) - 1)
        if not self._reuse or binding != self._budget or shared < LEAST_SHARED * len(self._held):
            self._drop()
        elif self._session is not None:
            self._session.forget_from(shared)
            self._held = ids[:shared]
        self._budget = binding

    def _ends(self, ids: list[int]) -> list[int]:
        """Where each piece ends. Pruning needs to see the whole prompt at once; one too long is refused."""
        if self._budget is not None or len(ids) > self._engine.backbone.max_positions:
            return [len(ids)]
        start = len(self._held)
        pieces = max(1, round((len(ids) - start) / self._piece))
        return [start + (len(ids) - start) * piece // pieces for piece in range(1, pieces + 1)]

    def _read_to(self, end: int, prompt: PromptTokens, segments: list[int] | None) -> Reading:
        session = self._open(prompt)
        try:
            reading = session.read(
                prompt.ids[:end],
                floor=prompt.floor[:end],
                segments=None if segments is None else segments[:end],
            )
        except BaseException as error:
            # The session stands as it was before, which is of use to a next call that has more time.
            if not self._held or not isinstance(error, TimeUp):
                self._drop()
            raise
        self._held = prompt.ids[:end]
        return reading

    def _open(self, prompt: PromptTokens) -> Session:
        if self._session is None:
            self._session = Session(
                self._engine, self._budget, compact_to=self._target(prompt), least_shared=0.0
            )
        return self._session

    def _target(self, prompt: PromptTokens) -> int | None:
        """What a compaction leaves: never less than what may not be cut."""
        if self._budget is None:
            return None
        fixed = protected(len(prompt.ids), sum(prompt.floor))
        return min(self._budget, max(int(self._compact_to * self._budget), fixed))

    def _drop(self) -> None:
        self._session, self._held = None, []


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
