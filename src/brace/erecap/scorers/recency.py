"""The newest tokens live."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from brace.erecap.scorers.base import ScoreInput, Scorer
from brace.registry import scorers


@scorers.register("recency")
@dataclass(eq=False)
class Recency(Scorer):
    """A token's worth is its position."""

    name = "recency"
    capturable = True
    cacheable = True

    def score(self, given: ScoreInput) -> Tensor:
        """The position."""
        return given.positions.float()
