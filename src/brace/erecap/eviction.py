"""Pruning caches that were read before: what is worth least leaves them, and nothing is read again.

A causal model's state at a token does not change with what follows it, so a scorer that judges states can say
later what a token is worth, from what it noted when the token was read. Survivors keep keys and values that
were computed while the others were still there.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor

from brace.erecap.schedule import HEAD, Schedule, tail_of
from brace.erecap.scorers.base import Scorer
from brace.errors import BraceError

Worth = dict[int, Tensor]
"""Per pruning layer, [batch, tokens of that layer]: what the scorer noted of them when they were read."""


class Evictable(Protocol):
    """A context of one sequence that remembers what its tokens are worth."""

    worth: Worth | None
    """None if nothing was noted."""

    def places(self, layer: int) -> Tensor:
        """[tokens]: the positions that a layer holds."""

    def retain(self, layer: int, kept: Tensor) -> None:
        """Hold only these of a layer's tokens, given by their number in it, in order."""


def evict(context: Evictable, scorer: Scorer, schedule: Schedule, new: int, floor: Tensor | None) -> bool:
    """Make room for `new` tokens that are about to be read, after which each layer holds at most what the
    schedule says for the whole text. A token that leaves a layer leaves all later ones.

    `floor`, [tokens of the text], marks those that may not go. False, and nothing has changed, if what must
    stay leaves no room, or nobody noted what the tokens are worth.
    """
    if context.worth is None or set(context.worth) != set(schedule.layers):
        return False
    choices: list[Tensor] = []
    alive: Tensor | None = None
    before = schedule.tokens
    for layer, count in zip(schedule.layers, schedule.kept, strict=True):
        positions = context.places(layer)
        if context.worth[layer].shape[1] != len(positions):
            return False
        last = torch.full((1, 1), schedule.tokens - 1, device=positions.device)
        scores = scorer.again(layer, context.worth[layer], positions[None], last)[0].float()
        if not bool(torch.isfinite(scores).all()):
            raise BraceError("the scorer gave scores that are not finite numbers; nothing was evicted")
        there = torch.ones_like(positions, dtype=torch.bool) if alive is None else alive[positions]
        stay = _must_stay(positions, there, max(0, tail_of(before) - new), floor)
        if int(stay.sum()) > count - new:
            return False
        ranked = scores.masked_fill(stay, torch.inf).masked_fill(~there, -torch.inf)
        room = min(count - new, int(there.sum()))
        kept = ranked.argsort(descending=True, stable=True)[:room].sort().values
        choices.append(kept)
        alive = torch.zeros(schedule.tokens, dtype=torch.bool, device=positions.device)
        alive[positions[kept]] = True
        before = count
    for (first, end), kept in zip(pairwise([*schedule.layers, schedule.n_layers]), choices, strict=True):
        if len(kept) < len(context.places(first)):
            for layer in range(first, end):
                context.retain(layer, kept)
    return True


def with_note(worth: Worth | None, layer: int, noted: Tensor, held: int) -> Worth | None:
    """The notes and those of the layer's next tokens. Written tokens pass without a word, and where they stay
    among the `held` ones the notes are of no use any more."""
    if worth is None or worth[layer].shape[1] != held:
        return None
    return worth | {layer: torch.cat([worth[layer], noted], 1)}


def _must_stay(positions: Tensor, there: Tensor, tail: int, floor: Tensor | None) -> Tensor:
    """The head, floors, and what the new tokens leave of the tail."""
    rank = there.cumsum(0) - 1
    stay = (positions < HEAD) | (rank > rank[-1] - tail)
    return (stay if floor is None else stay | floor[positions]) & there
