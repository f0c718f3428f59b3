"""The largest hidden states live."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from brace.erecap.scorers.base import ScoreInput, Scorer
from brace.registry import scorers


@scorers.register("hidden-norm")
@dataclass(eq=False)
class HiddenNorm(Scorer):
    """A token's worth is the length of its hidden state."""

    name = "hidden-norm"
    capturable = True
    cacheable = True

    def score(self, given: ScoreInput) -> Tensor:
        """The Euclidean norm."""
        # In float32: the squares of large states are beyond float16.
        norms: Tensor = torch.linalg.vector_norm(given.hidden.float(), dim=-1)
        return norms
