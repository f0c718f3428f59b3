"""L_R: of two sampled things the one that is worth more by its label should get the higher score."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

PAIRS = 512
"""Sampled for each row and layer: all of them would be quadratic."""


def ranking_loss(worth: Tensor, target: Tensor, among: Tensor, draw: torch.Generator) -> Tensor:
    """log(1 + exp(−(π_i − π_j) · sign(π̂_i − π̂_j))), mean over pairs of those that are `among`."""
    pairs = torch.multinomial(among.float(), 2 * PAIRS, replacement=True, generator=draw)
    one, other = pairs.chunk(2, 1)
    order = (target.gather(1, one) - target.gather(1, other)).sign()
    apart = (worth.gather(1, one) - worth.gather(1, other)) * order
    return (functional.softplus(-apart) * order.abs()).mean()
