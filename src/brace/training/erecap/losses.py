"""The three things a predictor is told: the answer must survive, match the labels, keep their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from brace.erecap.schedule import Keep
from brace.erecap.scorers import Predictor
from brace.erecap.selection import must_stay
from brace.training.erecap.encoding import Batch
from brace.training.erecap.frozen import GONE, FrozenModel
from brace.training.erecap.line_gates import LineGates
from brace.training.erecap.pairs import ranking_loss

_NEXT_TO_NOTHING = 1e-9
"""A ratio at which only what must stay stays."""


@dataclass(frozen=True)
class Terms:
    """Unweighted; all are means, so that they do not depend on the batch's shape."""

    language: Tensor
    """L_L: how far gates instead of pruning move the model's next-token distributions over the answer: KL."""
    match: Tensor
    """L_M: squared error to the normalised labels."""
    ranking: Tensor
    """L_R: over sampled pairs."""


def terms(
    model: FrozenModel,
    predictor: Predictor,
    batch: Batch,
    targets: Tensor,
    *,
    keep: float,
    temperature: float,
    draw: torch.Generator,
) -> Terms:
    """One reading of the batch with gates that close, in the last pruning layer, on all but `keep` of what
    may go; a predictor of lines closes them before the first layer instead.

    `targets` are normalised labels, [layers, rows, tokens]. A predictor sees the hidden states that its own
    earlier gates left, as it will when it prunes.
    """
    gating: _Gating | LineGates
    if predictor.lines:
        gating = LineGates(predictor, batch, targets, keep, temperature, draw)
    else:
        gating = _Gating(predictor, batch, targets, keep, temperature, draw, model.backbone.n_layers)
    with torch.no_grad():
        whole = model.read(batch.ids, gating.look)
    hidden = model.read(batch.ids, gating.enter)
    language = model.answer_divergences(hidden, whole, batch.answer).mean()
    return Terms(language, torch.stack(gating.match).mean(), torch.stack(gating.ranking).mean())


@dataclass
class _Gating:
    """What happens at the pruning layers of one reading."""

    predictor: Predictor
    batch: Batch
    targets: Tensor
    keep: float
    temperature: float
    draw: torch.Generator
    n_layers: int
    match: list[Tensor] = field(default_factory=list)
    ranking: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        layers = self.predictor.layers
        self.alive = self.batch.prompt.clone()
        self.gates = torch.zeros(self.alive.shape, device=self.alive.device)
        counts = self.alive.sum(1).tolist()
        floors = (self.batch.floor & ~must_stay(self.alive, None)).sum(1).tolist()
        self.kept = [
            _way_down(count, floor, self.keep, layers, self.n_layers)
            for count, floor in zip(counts, floors, strict=True)
        ]

    def look(self, layer: int, hidden: Tensor) -> None:
        """Nothing of the uncut reading is needed."""

    def enter(self, layer: int, hidden: Tensor) -> Tensor | None:
        if layer not in self.predictor.layers:
            return None
        step = self.predictor.layers.index(layer)
        net: nn.Module = self.predictor.nets[str(layer)]
        positions = torch.arange(hidden.shape[1], device=hidden.device)[None]
        worth: Tensor = net(hidden.float(), positions, self.batch.prompt.sum(1, keepdim=True) - 1)
        self._compare(worth, self.targets[step])
        stay = must_stay(self.alive, self.batch.floor & self.alive)
        ranked = worth.detach().masked_fill(stay, torch.inf).masked_fill(~self.alive, -torch.inf)
        ordered = ranked.sort(1, descending=True).values
        wanted = torch.tensor([[kept[step]] for kept in self.kept], device=worth.device)
        last_in = ordered.gather(1, wanted - 1)
        first_out = ordered.gather(1, wanted.clamp(max=worth.shape[1] - 1))
        loose = self.alive & ~stay
        # Where all that is kept must stay, or all is kept, no score decides.
        decided = loose & last_in.isfinite() & first_out.isfinite()
        between = torch.where(decided, (last_in + first_out) / 2, 0.0)
        closing = functional.logsigmoid((worth - between) / self.temperature)
        lost = torch.where(loose & last_in.isinf(), GONE, 0.0)
        self.gates = self.gates + torch.where(decided, closing, lost)
        self.alive = self.alive & (ranked >= last_in)
        return self.gates

    def _compare(self, worth: Tensor, target: Tensor) -> None:
        alive = self.alive
        self.match.append(((worth - target) ** 2 * alive).sum() / alive.sum())
        self.ranking.append(ranking_loss(worth, target, alive, self.draw))


def _way_down(tokens: int, floors: int, keep: float, layers: Sequence[int], n_layers: int) -> tuple[int, ...]:
    """Tokens after each pruning layer, ending at `keep` of those that may go beside those that may not.

    A share of all tokens would be less than the floors alone where these are many, and nothing would be left
    to learn from.
    """
    least = Keep(ratio=_NEXT_TO_NOTHING, layers=tuple(layers)).schedule(tokens, n_layers, floors).last
    budget = least + round(keep * (tokens - least))
    return Keep(budget=budget, layers=tuple(layers)).schedule(tokens, n_layers, floors).kept or (
        tokens,
    ) * len(layers)
