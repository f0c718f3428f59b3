"""A seeded draw: the floor under every method that claims to choose."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from brace.erecap.scorers.base import ScoreInput, Scorer
from brace.registry import scorers


@scorers.register("random")
@dataclass(eq=False)
class Random(Scorer):
    """Each token's worth is drawn anew at each pruning layer, the same for the same seed and place."""

    name = "random"
    # Not `capturable`: the draw is made on the host.
    cacheable = True

    seed: int = 0
    """Of the draw."""

    def score(self, given: ScoreInput) -> Tensor:
        """Drawn by position, so that padding and company in the batch make no difference."""
        # No model has so many layers: no two pairs of seed and layer share a draw.
        draw = torch.Generator().manual_seed(self.seed * 1_000_003 + given.layer)
        worth = torch.rand(given.backbone.max_positions, generator=draw)
        return worth.to(given.positions.device)[given.positions]
