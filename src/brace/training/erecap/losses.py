"""The three things a predictor is told: the answer must survive, match the labels, keep their order.

A predictor of tokens closes gates at the pruning layers of one reading. A predictor of whole lines closes
them before the text is read: what it sees are the hidden states of an uncut reading, at its one layer; what
it decides is the text of a second one. So it learns what the text can do without, which is not what a model
can do without that has already read everything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from brace.erecap.schedule import Keep
from brace.erecap.scorers import Predictor
from brace.erecap.selection import must_stay
from brace.training.erecap.encoding import Batch
from brace.training.erecap.frozen import GONE, FrozenModel

_NEXT_TO_NOTHING = 1e-9
"""A ratio at which only what must stay stays."""
_PAIRS = 512
"""Sampled for each row and layer: all of them would be quadratic."""


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
    gates: _Gates
    if predictor.lines:
        gates = LineGates(predictor, batch, targets, keep, temperature, draw)
    else:
        gates = _TokenGates(predictor, batch, targets, keep, temperature, draw, model.backbone.n_layers)
    with torch.no_grad():
        whole = model.read(batch.ids, gates.look)
    hidden = model.read(batch.ids, gates.enter)
    language = model.answer_divergences(hidden, whole, batch.answer).mean()
    return Terms(language, torch.stack(gates.match).mean(), torch.stack(gates.ranking).mean())


@dataclass
class _Gates(ABC):
    """What a predictor says in one reading, how far that is from the labels, and the gates it closes."""

    predictor: Predictor
    batch: Batch
    targets: Tensor
    keep: float
    temperature: float
    draw: torch.Generator
    match: list[Tensor] = field(default_factory=list, init=False)
    ranking: list[Tensor] = field(default_factory=list, init=False)

    def look(self, layer: int, hidden: Tensor) -> None:  # noqa: B027 - not all need it
        """Of the uncut reading: the hidden states that enter a layer."""

    @abstractmethod
    def enter(self, layer: int, hidden: Tensor) -> Tensor | None:
        """Of the reading that is cut: the gates' logarithms from a layer on, or None."""

    def worth(self, layer: int, hidden: Tensor) -> Tensor:
        """What the predictor says of each token."""
        positions = torch.arange(hidden.shape[1], device=hidden.device)[None]
        last = self.batch.prompt.sum(1, keepdim=True) - 1
        found: Tensor = self.predictor.nets[str(layer)](hidden.float(), positions, last)
        return found

    def compare(self, worth: Tensor, target: Tensor, among: Tensor) -> None:
        """Note L_M and L_R of those that are `among`.

        L_R is log(1 + exp(−(π_i − π_j) · sign(π̂_i − π̂_j))), mean over sampled pairs.
        """
        self.match.append(((worth - target) ** 2 * among).sum() / among.sum())
        # With replacement, because a short text has fewer tokens than are drawn.
        pairs = torch.multinomial(among.float(), 2 * _PAIRS, replacement=True, generator=self.draw)
        one, other = pairs.chunk(2, 1)
        order = (target.gather(1, one) - target.gather(1, other)).sign()
        apart = (worth.gather(1, one) - worth.gather(1, other)) * order
        # Two of the same worth have no order to keep.
        self.ranking.append((functional.softplus(-apart) * order.abs()).mean())


@dataclass
class _TokenGates(_Gates):
    """Gates on tokens, closed at the pruning layers."""

    n_layers: int

    def __post_init__(self) -> None:
        self.alive = self.batch.prompt.clone()
        self.gates = torch.zeros(self.alive.shape, device=self.alive.device)
        counts = self.alive.sum(1).tolist()
        floors = (self.batch.floor & ~must_stay(self.alive, None)).sum(1).tolist()
        self.kept = [
            _way_down(count, floor, self.keep, self.predictor.layers, self.n_layers)
            for count, floor in zip(counts, floors, strict=True)
        ]

    def enter(self, layer: int, hidden: Tensor) -> Tensor | None:
        if layer not in self.predictor.layers:
            return None
        step = self.predictor.layers.index(layer)
        worth = self.worth(layer, hidden)
        self.compare(worth, self.targets[step], self.alive)
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


class LineGates(_Gates):
    """Gates on whole lines, closed before the first layer, so that `keep` of what may go stays."""

    def look(self, layer: int, hidden: Tensor) -> None:
        """Keep the states of the one layer at which lines are judged."""
        if layer == self.predictor.layers[0]:
            self._states = hidden

    def enter(self, layer: int, hidden: Tensor) -> Tensor | None:
        """The gates, before the first layer."""
        if layer:
            return None
        batch = self.batch
        inside = (batch.segments >= 0) & batch.prompt
        owner = batch.segments.clamp(min=0)
        lines = int(owner.max()) + 1

        def by_line(values: Tensor) -> Tensor:
            sums = torch.zeros(len(owner), lines, device=owner.device)
            return sums.scatter_add(1, owner, values.float() * inside)

        sizes = by_line(inside)
        there, fixed = sizes > 0, by_line(batch.floor) > 0
        worth = by_line(self.worth(self.predictor.layers[0], self._states)) / sizes.clamp(min=1)
        self.compare(worth, by_line(self.targets[0]) / sizes.clamp(min=1), there)
        closing = self._closing(worth, sizes, there & ~fixed)
        return torch.where(inside, closing.gather(1, owner), 0.0)

    def _closing(self, worth: Tensor, sizes: Tensor, loose: Tensor) -> Tensor:
        ranked = worth.detach().masked_fill(~loose, -torch.inf)
        ordered, order = ranked.sort(1, descending=True)
        room = self.keep * (sizes * loose).sum(1, keepdim=True)
        fitting = (((sizes * loose).gather(1, order).cumsum(1) <= room) & ordered.isfinite()).sum(
            1, keepdim=True
        )
        first_out = ordered.gather(1, fitting.clamp(max=worth.shape[1] - 1))
        last_in = ordered.gather(1, (fitting - 1).clamp(min=0))
        # With no line in, or none out, no score decides.
        between = torch.where(last_in.isfinite() & first_out.isfinite(), (last_in + first_out) / 2, 0.0)
        decided = loose & (fitting > 0) & first_out.isfinite()
        closing = functional.logsigmoid((worth - between) / self.temperature)
        return torch.where(decided, closing, torch.where(loose & (fitting == 0), GONE, 0.0))
