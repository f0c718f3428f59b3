"""Which tokens stay: head, tail and floors always, then the best by score, singly or by whole segments.

`choose` is for tokens that are being read. `evict` prunes caches that were read before: a causal model's
state at a token does not change with what follows it, so a scorer that looks at states can say later what a
token is worth, from what it said when the token was read. What stays keeps keys and values that were computed
while the others were still there.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from brace.erecap.context import Context
from brace.erecap.schedule import HEAD, Schedule, tail_of
from brace.erecap.scorers.base import Scorer
from brace.errors import BraceError


def must_stay(valid: Tensor, floor: Tensor | None, tail: int | None = None) -> Tensor:
    """Head, tail and floor tokens of each row, [batch, tokens]. Padding never is."""
    rank = valid.cumsum(1) - 1
    counts = valid.sum(1, keepdim=True)
    tails = torch.tensor(
        [[tail_of(int(count)) if tail is None else tail] for count in counts[:, 0]], device=valid.device
    )
    stay = (rank < HEAD) | (rank >= counts - tails)
    if floor is not None:
        stay = stay | floor
    return stay & valid


def whole_segments(marked: Tensor, valid: Tensor, segments: Tensor) -> Tensor:
    """All tokens of the segments in which at least one is marked."""
    rows = []
    for mark, real, numbers in zip(marked, valid, segments, strict=True):
        alive = torch.unique(numbers[mark & (numbers >= 0)])
        rows.append(mark | (torch.isin(numbers, alive) & real))
    return torch.stack(rows)


def choose(scores: Tensor, stay: Tensor, valid: Tensor, kept: list[int], segments: Tensor | None) -> Tensor:
    """A mask of survivors, [batch, tokens]: row b keeps `kept[b]` tokens (by segments: at most that many)."""
    if not torch.isfinite(scores[valid]).all():
        raise BraceError("the scorer gave scores that are not finite numbers; nothing was pruned")
    if segments is not None:
        rows = [
            _choose_segments(scores[b], stay[b], valid[b], kept[b], segments[b]) for b in range(len(kept))
        ]
        return torch.stack(rows)
    ranked = scores.float().masked_fill(stay, torch.inf).masked_fill(~valid, -torch.inf)
    # Stable: of equals the earlier token stays, whatever the device and the path.
    order = ranked.argsort(dim=1, descending=True, stable=True)
    places = torch.arange(scores.shape[1], device=scores.device).expand_as(order)
    first = places < torch.tensor(kept, device=scores.device)[:, None]
    return torch.zeros_like(valid).scatter(1, order, first) & valid


def _choose_segments(scores: Tensor, stay: Tensor, valid: Tensor, kept: int, segments: Tensor) -> Tensor:
    """Whole segments by their mean score; one that holds a token which must stay lives whole.

    The mean, not the best token: a long segment with one bright word must not push out a short one that
    matters throughout.
    """
    loose = valid & (segments >= 0)
    _, owner = torch.unique(segments[loose], return_inverse=True)
    sizes = torch.bincount(owner)
    means = torch.zeros(len(sizes), device=scores.device).scatter_add(0, owner, scores[loose].float()) / sizes
    alive = torch.zeros(len(sizes), dtype=torch.bool, device=scores.device)
    alive[owner[stay[loose]]] = True
    left = kept - int((stay & ~loose).sum()) - int(sizes[alive].sum())
    for segment in means.masked_fill(alive, -torch.inf).argsort(descending=True, stable=True).tolist():
        # One that does not fit is passed over: a shorter one after it may still fit.
        if not alive[segment] and sizes[segment] <= left:
            alive[segment] = True
            left -= int(sizes[segment])
    chosen = stay.clone()
    chosen[loose] |= alive[owner]
    return chosen


def rank(scores: Tensor, valid: Tensor) -> Tensor:
    """Each token's place among its row's by score, from 0 (worst, and padding) to just under 1."""
    # Sorted twice: the first gives who is at which place, the second at which place each one is.
    ranks = scores.float().masked_fill(~valid, -torch.inf).argsort(dim=1, stable=True).argsort(dim=1)
    places: Tensor = ranks.masked_fill(~valid, 0) / scores.shape[1]
    return places


def gather(survivors: Tensor) -> tuple[Tensor, Tensor]:
    """Survivors as places, [batch, most], in order; the second result is False where a row has fewer."""
    counts = survivors.sum(1)
    most = int(counts.max())
    order = (~survivors).to(torch.int8).argsort(dim=1, stable=True)[:, :most]
    filled = torch.arange(most, device=survivors.device) < counts[:, None]
    # Places are kept in the order of the text; the surplus of shorter rows stays at their end, masked.
    return order, filled


def evict(context: Context, scorer: Scorer, schedule: Schedule, new: int, floor: Tensor | None) -> bool:
    """Make room for `new` tokens that are about to be read, after which each layer holds at most what the
    schedule says for the whole text. A token that leaves a layer leaves all later ones.

    The context is one sequence. `floor`, [tokens of the text], marks those that may not go. False, and
    nothing has changed, if what must stay leaves no room, or the tokens were not scored when they were read.
    """
    cached = context.complete_scores()
    if tuple(cached) != schedule.layers:
        return False
    choices: list[Tensor] = []
    alive: Tensor | None = None
    before = schedule.tokens
    for layer, count in zip(schedule.layers, schedule.kept, strict=True):
        positions = context.layer_positions(layer)[0]
        last = torch.full((1, 1), schedule.tokens - 1, device=positions.device)
        scores = scorer.rescore(layer, cached[layer], positions[None], last)[0].float()
        if not bool(torch.isfinite(scores).all()):
            raise BraceError("the scorer gave scores that are not finite numbers; nothing was evicted")
        there = torch.ones_like(positions, dtype=torch.bool) if alive is None else alive[positions]
        floors = None if floor is None else floor[positions][None]
        # The new tokens are part of the tail.
        stay = must_stay(there[None], floors, max(0, tail_of(before) - new))[0]
        if int(stay.sum()) > count - new:
            return False
        ranked = scores.masked_fill(stay, torch.inf).masked_fill(~there, -torch.inf)
        room = min(count - new, int(there.sum()))
        kept = ranked.argsort(descending=True, stable=True)[:room].sort().values
        choices.append(kept)
        # By position: at the same index, two layers hold different tokens.
        alive = torch.zeros(schedule.tokens, dtype=torch.bool, device=positions.device)
        alive[positions[kept]] = True
        before = count
    # Only now is anything dropped: a layer above that had no room must have changed nothing.
    lengths = context.lengths()
    for (first, end), kept in zip(pairwise([*schedule.layers, schedule.n_layers]), choices, strict=True):
        if len(kept) < lengths[first]:
            for layer in range(first, end):
                context.retain(layer, kept)
    return True
