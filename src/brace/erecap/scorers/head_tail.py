"""The beginning and the end live, the middle goes."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from brace.erecap.scorers.base import ScoreInput, Scorer
from brace.registry import scorers


@scorers.register("head-tail")
@dataclass(eq=False)
class HeadTail(Scorer):
    """A token's worth is its distance from the middle of what is left."""

    name = "head-tail"
    # Not `cacheable`: where the middle is depends on what else is still there.
    capturable = True

    def score(self, given: ScoreInput) -> Tensor:
        """Distance from the middle, in tokens still there."""
        rank = given.valid.cumsum(1).float()
        middle = (given.valid.sum(1, keepdim=True) + 1) / 2
        return (rank - middle).abs()
