"""A pruned reading of one sequence, of which the host knows all lengths and the device all choices.

Lengths are planned before it begins, so nobody waits for the device to tell what it has kept. The tensors may
be longer than what is read (a bucket's shape): what follows the text is padding, which no real token sees,
and how much of each layer is real is a number on the device. So one captured graph reads every text that fits
its shape; a text of exactly that shape is the case without padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from brace.erecap.schedule import HEAD, Schedule, tail_of
from brace.erecap.scorers.base import ScoreInput, Scorer
from brace.erecap.static.layer import causal, fused, run

if TYPE_CHECKING:
    from brace.erecap.backbone import Backbone
    from brace.erecap.fused import Rotation


Mark: Any = torch.cuda.Event
"""A point in the device's work that can be timed."""


@dataclass(frozen=True)
class Rows:
    """Where keys and values go: [rows, heads, width], and each layer's first row."""

    keys: Tensor
    values: Tensor
    starts: tuple[int, ...]
    at: Tensor
    """The same, on the device."""


@dataclass(frozen=True)
class Form:
    """What kind of reading it is; readings of one form differ in their texts only."""

    shape: Schedule
    floors: bool = False
    """Whether some tokens are protected."""
    noting: tuple[int, ...] = ()
    """Layers before which what lasts of the scores is noted, besides those that prune."""


@dataclass(frozen=True)
class Read:
    """What a reading left."""

    logits: Tensor
    """[1, vocabulary], after the last token."""
    places: list[Tensor]
    """After each pruning layer: which tokens of the input live on, in order, then padding."""
    finite: Tensor
    """Whether all scores of real tokens were."""
    noted: list[Tensor]
    """After each layer that prunes or notes: what lasts of the scores of those that live on, if it lasts."""


def counts_of(schedule: Schedule) -> list[list[int]]:
    """What the device must know of a text: before each pruning layer its length, its tail and how many live
    on; and one more row with the length at the end."""
    before, rows = schedule.tokens, []
    for kept in schedule.kept:
        rows.append([before, tail_of(before), kept])
        before = kept
    return [*rows, [before, 0, before]]


def read(
    backbone: Backbone,
    scorer: Scorer,
    ids: Tensor,
    floor: Tensor | None,
    form: Form,
    counts: Tensor,
    rows: Rows,
    marks: list[Any] | None = None,
) -> Read:
    """Read `ids`, [tokens of the shape]; `counts` are those of the text itself, on the device.

    A shape of fewer layers than the model has is read to its own end, to be timed. `marks` are passed at the
    beginning, before the first pruning layer, and at the end.
    """
    shape = form.shape
    if marks is not None:
        marks[0].record()
    hidden = backbone.embed(ids[None])[0]
    places = torch.arange(len(ids), device=ids.device)
    cos, sin = backbone.rotate(hidden[None], places[None])
    rotation = (cos[0], sin[0])
    finite = torch.ones((), dtype=torch.bool, device=ids.device)
    left: list[Tensor] = []
    noted: list[Tensor] = []
    for index in range(shape.n_layers):
        backbone.check()
        if index in form.noting:
            everyone = torch.ones_like(places, dtype=torch.bool)
            noted.append(scorer.lasting(asked_of(index, hidden, places, everyone, rotation, backbone)))
        if index in shape.layers:
            step = len(left)
            if marks is not None and step == 0:
                marks[1].record()
            valid = torch.arange(len(hidden), device=ids.device) < counts[step, 0]
            asked = asked_of(index, hidden, places, valid, rotation, backbone)
            if scorer.lasts:
                noted.append(scorer.lasting(asked))
                scores = scorer.again(index, noted[-1], asked.positions, asked.last)[0].float()
            else:
                scores = scorer.score(asked)[0].float()
            finite = finite & (torch.isfinite(scores) | ~valid).all()
            chosen = _best(scores, floor, valid, counts[step], shape.kept[step])
            hidden, places = hidden[chosen], places[chosen]
            if scorer.lasts:
                noted[-1] = noted[-1][:, chosen]
            rotation = (rotation[0][chosen], rotation[1][chosen])
            floor = None if floor is None else floor[chosen]
            left.append(places)
        hidden = _layer(backbone, index, hidden, rotation, rows)
    last = hidden.index_select(0, counts[-1, :1] - 1)
    logits = backbone.logits(last) if shape.n_layers == backbone.n_layers else last
    if marks is not None:
        marks[2].record()
    return Read(logits, left, finite, noted)


def _layer(backbone: Backbone, index: int, hidden: Tensor, rotation: Rotation, rows: Rows) -> Tensor:
    layer, start = fused(backbone, index), rows.starts[index]
    part = slice(start, start + len(hidden))

    def attend(queries: Tensor) -> Tensor:
        return causal(queries, rows.keys[part], rows.values[part], layer.scale)

    return run(layer, hidden, rotation, rows.keys, rows.values, rows.at[index], attend)


def _best(scores: Tensor, floor: Tensor | None, valid: Tensor, counts: Tensor, room: int) -> Tensor:
    """The places that live on, in order: head, tail, floors, then the best, of equals the earlier; then some
    others up to `room`, as padding."""
    count, tail, kept = counts
    place = torch.arange(len(scores), device=scores.device)
    stay = (place < HEAD) | (place >= count - tail)
    if floor is not None:
        stay = stay | floor
    ranked = scores.masked_fill(stay, torch.inf).masked_fill(~valid, -torch.inf)
    best = ranked.argsort(descending=True, stable=True)[:room]
    # Padding is moved behind all that is real, and its places back into range.
    behind = (place[:room] >= kept) * len(scores)
    chosen: Tensor = (best + behind).sort().values % len(scores)
    return chosen


def asked_of(
    layer: int, hidden: Tensor, places: Tensor, valid: Tensor, rotation: Rotation, backbone: Backbone
) -> ScoreInput:
    """What a scorer is shown of one sequence without a batch's dimension."""
    turned = (rotation[0][None], rotation[1][None])
    return ScoreInput(layer, hidden[None], places[None], valid[None], places[None], turned, backbone)
