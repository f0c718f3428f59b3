"""The contract of a compressor, and the one way in which scores become a shorter context.

A new method is one file: it subclasses `ScoringCompressor` and writes `score()`. Floors, budgets, cutting
and the rounding of tokens are not its business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from brace.callpath.call import OpenCall, floors_exceed
from brace.callpath.compress.selection import keep_segments, keep_tokens
from brace.context import Line
from brace.errors import ConfigError, suggestion

Granularity = Literal["token", "segment"]
Scores = NDArray[np.float64]


class Compressor(ABC):
    """Shortens a context to the room it is given, never touching floors."""

    needs_extra: ClassVar[str | None] = None
    """What to install: `pip install 'brace-replan[extra]'`."""
    name: ClassVar[str]
    in_model: ClassVar[bool] = False
    """It leaves the text whole: the planner prunes in its own layers, down to the call's budget."""

    @abstractmethod
    def compress(self, call: OpenCall) -> list[Line]:
        """The surviving ones of `call.lines`, in order; their tokens sum to at most `call.room`."""


@dataclass(eq=False)
class ScoringCompressor(Compressor):
    """Keeps what scores highest: whole segments, or single tokens."""

    granularity: Granularity = "segment"
    """What is kept or cut: whole lines, or single tokens."""

    def __post_init__(self) -> None:
        if self.granularity not in ("token", "segment"):
            raise ConfigError(
                f"compressor {self.name!r}: granularity {self.granularity!r}"
                f"{suggestion(self.granularity, ('token', 'segment'))}"
            )

    @abstractmethod
    def score(self, lines: Sequence[Line], call: OpenCall) -> Sequence[Scores]:
        """One array a line: a score for each of its tokens."""

    def segment_score(self, scores: Scores) -> float:
        """What a whole segment is worth, from its tokens' scores: its best token."""
        return float(scores.max())

    def rewrite(self, call: OpenCall) -> Sequence[Line]:
        """The lines to choose from; a summarising method makes new ones here."""
        return call.lines

    def compress(self, call: OpenCall) -> list[Line]:
        """Floors first, then by score until the room is full."""
        lines = self.rewrite(call)
        floor_tokens = sum(line.tokens for line in lines if line.floor)
        if floor_tokens > call.room:
            raise floors_exceed(floor_tokens, call.room)
        scores = self.score(lines, call)
        if any(not np.isfinite(values).all() for values in scores):
            raise ConfigError(f"compressor {self.name!r} gave scores that are not finite numbers")
        if self.granularity == "segment":
            return keep_segments(lines, [self.segment_score(values) for values in scores], call.room)
        return keep_tokens(lines, scores, call.room, call.tokenizer)
