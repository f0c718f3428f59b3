"""Gates on whole lines, closed before the text is read: how a predictor of lines is trained.

What it sees are the hidden states of an uncut reading, at its one layer; what it decides is the text of a
second one. So it learns what the text can do without, which is not what a model can do without that has
already read everything.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from brace.erecap.scorers import Predictor
from brace.training.erecap.encoding import Batch
from brace.training.erecap.frozen import GONE
from brace.training.erecap.pairs import ranking_loss


class LineGates:
    """What happens before one reading: the last `keep` of the tokens that may go stays, by whole lines."""

    def __init__(
        self,
        predictor: Predictor,
        batch: Batch,
        targets: Tensor,
        keep: float,
        temperature: float,
        draw: torch.Generator,
    ) -> None:
        self._predictor, self._batch, self._targets = predictor, batch, targets
        self._keep, self._temperature, self._draw = keep, temperature, draw
        self._states = torch.empty(0)
        self.match: list[Tensor] = []
        self.ranking: list[Tensor] = []

    def look(self, layer: int, hidden: Tensor) -> None:
        """Of the uncut reading."""
        if layer == self._predictor.layers[0]:
            self._states = hidden.float()

    def enter(self, layer: int, _: Tensor) -> Tensor | None:
        """Of the reading that is cut: the gates, before the first layer."""
        return self._gates() if layer == 0 else None

    def _gates(self) -> Tensor:
        batch, layer = self._batch, self._predictor.layers[0]
        inside = (batch.segments >= 0) & batch.prompt
        owner = batch.segments.clamp(min=0)
        lines = int(owner.max()) + 1

        def by_line(values: Tensor) -> Tensor:
            sums = torch.zeros(len(owner), lines, device=owner.device)
            return sums.scatter_add(1, owner, values.float() * inside)

        sizes = by_line(inside)
        there, fixed = sizes > 0, by_line(batch.floor) > 0
        positions = torch.arange(owner.shape[1], device=owner.device)[None]
        last = batch.prompt.sum(1, keepdim=True) - 1
        worth = by_line(self._predictor.nets[str(layer)](self._states, positions, last)) / sizes.clamp(min=1)
        target = by_line(self._targets[0]) / sizes.clamp(min=1)
        self.match.append(((worth - target) ** 2 * there).sum() / there.sum())
        self.ranking.append(ranking_loss(worth, target, there, self._draw))
        closing = self._closing(worth, sizes, there & ~fixed)
        return torch.where(inside, closing.gather(1, owner), 0.0)

    def _closing(self, worth: Tensor, sizes: Tensor, loose: Tensor) -> Tensor:
        ranked = worth.detach().masked_fill(~loose, -torch.inf)
        ordered, order = ranked.sort(1, descending=True)
        room = self._keep * (sizes * loose).sum(1, keepdim=True)
        fitting = (((sizes * loose).gather(1, order).cumsum(1) <= room) & ordered.isfinite()).sum(
            1, keepdim=True
        )
        first_out = ordered.gather(1, fitting.clamp(max=worth.shape[1] - 1))
        last_in = ordered.gather(1, (fitting - 1).clamp(min=0))
        # With no line in, or none out, no score decides.
        between = torch.where(last_in.isfinite() & first_out.isfinite(), (last_in + first_out) / 2, 0.0)
        decided = loose & (fitting > 0) & first_out.isfinite()
        closing = functional.logsigmoid((worth - between) / self._temperature)
        return torch.where(decided, closing, torch.where(loose & (fitting == 0), GONE, 0.0))
