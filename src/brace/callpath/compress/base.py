"""The contract of a compressor, and the one way in which scores become a shorter context.

A new method is one file: it subclasses `ScoringCompressor` and writes `score()`. Floors, budgets, cutting
and the rounding of tokens are not its business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from brace.callpath.compress.selection import keep_segments, keep_tokens
from brace.context import Line, Tokenizer
from brace.errors import ConfigError, LimitExceededError, suggestion

Granularity = Literal["token", "segment"]
Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CompressRequest:
    """A context and the room it must fit, in tokens (the template's share is already taken off)."""

    lines: Sequence[Line]
    room: int
    tokenizer: Tokenizer
    seed: int = 0
    """For methods that draw: the same seed gives the same selection."""
    before: str = ""
    """What the planner reads before the lines; for methods that read, too."""


class Compressor(Protocol):
    """Shortens a context to the room it is given, never touching floors."""

    name: ClassVar[str]

    def compress(self, request: CompressRequest) -> list[Line]:
        """The surviving lines, in order; their tokens sum to at most `request.room`."""
        ...


class ScoringCompressor:
    """Keeps what scores highest: whole segments, or single tokens."""

    name: ClassVar[str]

    def __init__(self, granularity: Granularity = "segment") -> None:
        if granularity not in ("token", "segment"):
            raise ConfigError(
                f"compressor {self.name!r}: granularity {granularity!r}"
                f"{suggestion(granularity, ('token', 'segment'))}"
            )
        self.granularity = granularity

    def score(self, lines: Sequence[Line], request: CompressRequest) -> Sequence[Scores]:
        """One array a line: a score for each of its tokens."""
        raise NotImplementedError

    def segment_score(self, scores: Scores) -> float:
        """What a whole segment is worth, from its tokens' scores: its best token."""
        return float(scores.max())

    def rewrite(self, request: CompressRequest) -> Sequence[Line]:
        """The lines to choose from; a summarising method makes new ones here."""
        return request.lines

    def compress(self, request: CompressRequest) -> list[Line]:
        """Floors first, then by score until the room is full."""
        lines = self.rewrite(request)
        floor_tokens = sum(line.tokens for line in lines if line.floor)
        if floor_tokens > request.room:
            raise LimitExceededError(
                "tokens", value=floor_tokens, limit=request.room, source="the call's budget",
                detail="the segments that may never be cut (task, goal, safety, current plan, last failure) "
                "do not fit beside the template; raise the budget or allow floor overruns",
            )  # fmt: skip
        scores = self.score(lines, request)
        if any(not np.isfinite(values).all() for values in scores):
            raise ConfigError(f"compressor {self.name!r} gave scores that are not finite numbers")
        if self.granularity == "segment":
            return keep_segments(lines, [self.segment_score(values) for values in scores], request.room)
        return keep_tokens(lines, scores, request.room, request.tokenizer)
