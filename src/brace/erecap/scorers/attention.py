"""What the last tokens look at lives (after SnapKV: an observation window votes)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from brace.erecap.scorers.base import ScoreInput, Scorer
from brace.errors import ConfigError
from brace.registry import scorers


@scorers.register("attention")
@dataclass(eq=False)
class Attention(Scorer):
    """A token's worth is the attention it gets in the coming layer from the last `window` tokens."""

    name = "attention"

    window: int = 16
    """How many of the last tokens vote."""

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ConfigError(f"scorer 'attention': window = {self.window} must be 1 or more tokens")

    def score(self, given: ScoreInput) -> Tensor:
        """Mean over the heads and the window's queries."""
        queries, keys = given.backbone.queries_and_keys(given.layer, given.hidden, given.rotation)
        groups = queries.shape[1] // keys.shape[1]
        keys = keys.repeat_interleave(groups, dim=1)
        rank = given.valid.cumsum(1)
        asking = given.valid & (rank > given.valid.sum(1, keepdim=True) - self.window)
        # The window's columns differ from row to row where there is padding: take the same number of each.
        order = (~asking).to(torch.int8).argsort(dim=1, stable=True)[:, : int(asking.sum(1).max())]
        index = order[:, None, :, None].expand(-1, queries.shape[1], -1, queries.shape[3])
        looks = queries.gather(2, index).float() @ keys.float().transpose(2, 3) / queries.shape[3] ** 0.5
        allowed = given.positions[:, None, :] <= given.positions.gather(1, order)[:, :, None]
        window = given.backbone.windows[given.layer]
        if window is not None:
            asked = given.positions.gather(1, order)[:, :, None]
            allowed = allowed & (given.positions[:, None, :] > asked - window)
        allowed = allowed & given.valid[:, None, :]
        # Not minus infinity: the softmax of a query that may look at nothing would be NaN.
        looks = looks.masked_fill(~allowed[:, None], torch.finfo(looks.dtype).min).softmax(-1)
        # A row with fewer voters was filled up with tokens that have no vote.
        counted = asking.gather(1, order)[:, None, :, None]
        votes: Tensor = (looks * counted).sum(2).mean(1)
        return votes
