"""The eager path: layer by layer through transformers' weights, with caches that grow. It can do everything.

A prefill is a reading on from nothing. Before a pruning layer the scorer ranks the tokens that are still
there; the others leave the computation and are absent from that layer's cache and all later ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from brace.erecap.attention import folded
from brace.erecap.backbone import Backbone, within_memory
from brace.erecap.context import Context, Prefill, too_long
from brace.erecap.fused import Rotation
from brace.erecap.schedule import Schedule
from brace.erecap.scorers.base import ScoreInput, Scorer
from brace.erecap.selection import choose, gather, must_stay, rank

_SPARE = 64
"""Room for this many further tokens is made at a time, so that decoding does not copy the cache each step."""


# Shared by all empty caches: they are only ever replaced, never written to.
_NO_TOKENS, _NO_KEYS = torch.empty((1, 0), dtype=torch.long), torch.empty((1, 0, 0, 0))


@dataclass
class LayerCache:
    """What one layer holds. Keys and values are in buffers that may be longer than what is filled."""

    positions: Tensor = _NO_TOKENS
    """[batch, tokens]."""
    valid: Tensor = _NO_TOKENS
    """[batch, tokens]: False for padding."""
    scores: Tensor | None = None
    """[batch, tokens]: what the scorer said of them, to prune again later."""
    keys: Tensor = _NO_KEYS
    """[batch, heads, room, width]."""
    values: Tensor = _NO_KEYS
    """The same."""
    length: int = 0
    """How much of the buffers is filled."""

    def announce(self, positions: Tensor, valid: Tensor, scores: Tensor | None) -> None:
        """Which tokens the layer is about to add."""
        if not self.length:
            self.positions, self.valid, self.scores = positions, valid, scores
            return
        self.positions = torch.cat([self.positions, positions], 1)
        self.valid = torch.cat([self.valid, valid], 1)
        # Else the scores stay shorter than the layer, which tells that some tokens were not scored.
        if scores is not None and self.scores is not None:
            self.scores = torch.cat([self.scores, scores], 1)

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of the tokens announced; all that is held."""
        end = self.length + keys.shape[2]
        if not self.length:
            # Not copied: room is made when more comes.
            self.keys, self.values = keys, values
        else:
            if end > self.keys.shape[2]:
                self.keys, self.values = self._longer(self.keys, end), self._longer(self.values, end)
            self.keys[:, :, self.length : end] = keys
            self.values[:, :, self.length : end] = values
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def _longer(self, buffer: Tensor, size: int) -> Tensor:
        longer = buffer.new_empty((*buffer.shape[:2], size + _SPARE, buffer.shape[3]))
        longer[:, :, : self.length] = buffer[:, :, : self.length]
        return longer

    def retain(self, kept: Tensor) -> None:
        """Hold only these, given by their index, in order."""
        self.keys, self.values = self.keys[:, :, kept], self.values[:, :, kept]
        self.positions, self.valid = self.positions[:, kept], self.valid[:, kept]
        self.scores = None if self.scores is None else self.scores[:, kept]
        self.length = len(kept)

    def crop(self, position: int) -> None:
        """Forget everything from `position` on (one sequence: positions ascend, so a beginning stays)."""
        # The buffers stay as they are: what comes next is written over the rest.
        self.length = int(torch.searchsorted(self.positions[0], position))
        self.positions, self.valid = self.positions[:, : self.length], self.valid[:, : self.length]
        self.scores = None if self.scores is None else self.scores[:, : self.length]


class EagerContext(Context):
    """One cache a layer, for a batch of sequences. With fewer layers than the model, reading ends there."""

    def __init__(self, rows: int, n_layers: int, device: torch.device) -> None:
        self.layers = [LayerCache() for _ in range(n_layers)]
        self._next = torch.zeros(rows, dtype=torch.long, device=device)

    @property
    def next_position(self) -> Tensor:
        """[batch]: where the next token stands."""
        return self._next

    def lengths(self) -> list[int]:
        """Tokens held by each layer."""
        return [layer.length for layer in self.layers]

    def nbytes(self) -> int:
        """Memory of the keys and values that are held."""
        filled = (layer.keys[:, :, : layer.length] for layer in self.layers)
        return sum(2 * keys.numel() * keys.element_size() for keys in filled)

    def layer_positions(self, layer: int) -> Tensor:
        """[batch, tokens]: the positions that a layer holds."""
        return self.layers[layer].positions

    def scores(self, layer: int) -> Tensor | None:
        """[batch, tokens]: what the scorer said of a layer's tokens when they were read."""
        return self.layers[layer].scores

    def retain(self, layer: int, kept: Tensor) -> None:
        """Hold only these of a layer's tokens, given by their index in it, in order."""
        self.layers[layer].retain(kept)

    def crop(self, position: int) -> None:
        """Forget everything from `position` on, in all layers."""
        for layer in self.layers:
            layer.crop(position)
        self._next = self._next.clamp(max=position)

    def undo(self) -> None:
        """Forget the tokens that only some of the layers have seen."""
        self.crop(int(self._next[0]))

    def update(
        self, keys: Tensor, values: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Append to a layer and give back all it holds: what transformers' attention asks of a cache."""
        return self.layers[layer_idx].append(keys, values)

    def begin(self, backbone: Backbone, ids: Tensor, valid: Tensor) -> Tokens:
        """More tokens, [batch, tokens], before the first layer."""
        start = self._next[:, None]
        # Padding takes no position; without the clamp, padding on the left would be at -1.
        positions = start + (valid.cumsum(1) - 1).clamp(min=0)
        hidden = backbone.embed(ids)
        cos, sin = (part.expand(len(ids), -1, -1) for part in backbone.rotate(hidden, positions))
        columns = start + torch.arange(ids.shape[1], device=ids.device)
        return Tokens(hidden, (cos, sin), positions, valid, columns)

    def advance(self, counts: Tensor) -> None:
        """So many tokens of each row have been through all layers."""
        self._next = self._next + counts

    def read_on(
        self,
        backbone: Backbone,
        scorer: Scorer,
        ids: Tensor,
        valid: Tensor | None,
        *,
        every: bool,
        remember: bool,
    ) -> Tensor:
        """Read more tokens, [batch, tokens]; the new logits."""
        real = torch.ones_like(ids, dtype=torch.bool) if valid is None else valid
        end = int((self._next + real.sum(1)).max())
        if end > backbone.max_positions:
            raise too_long(end, backbone.max_positions)
        with computing(backbone, ids):
            tokens = self.begin(backbone, ids, real)
            run_layers(backbone, scorer, self, tokens, self.complete_scores() if remember else ())
            if every:
                logits = backbone.logits(tokens.hidden)
                self.logits = tokens.last_of(logits)
                return logits
            # Of the last token only: each token's logits are as many numbers as the vocabulary has words.
            self.logits = backbone.logits(tokens.last_of(tokens.hidden))
        return self.logits


@dataclass
class Tokens:
    """The tokens on their way through the layers, [batch, tokens] and more dimensions each."""

    hidden: Tensor
    rotation: Rotation
    positions: Tensor
    valid: Tensor
    columns: Tensor
    """Where they stand in the text as it was given, padding included."""
    floor: Tensor | None = None
    segments: Tensor | None = None

    def keep(self, order: Tensor, filled: Tensor) -> None:
        """Go on with these only, [batch, most]; where not `filled`, a row has fewer."""

        def taken(states: Tensor) -> Tensor:
            return states.gather(1, order[:, :, None].expand(-1, -1, states.shape[2]))

        self.hidden = taken(self.hidden)
        self.rotation = taken(self.rotation[0]), taken(self.rotation[1])
        self.positions, self.columns = self.positions.gather(1, order), self.columns.gather(1, order)
        self.valid = filled
        self.floor = None if self.floor is None else self.floor.gather(1, order)
        self.segments = None if self.segments is None else self.segments.gather(1, order)

    def before(self, layer: int, backbone: Backbone) -> ScoreInput:
        """What a scorer is shown of them before a layer."""
        return ScoreInput(
            layer, self.hidden, self.positions, self.valid, self.columns, self.rotation, backbone
        )

    def last_of(self, states: Tensor) -> Tensor:
        """Of each row, what belongs to its last real token."""
        # By position, not by column: padding may be on either side.
        last = self.positions.masked_fill(~self.valid, -1).argmax(1)
        return states[torch.arange(len(last)), last]


class _Pruning:
    """The pruning layers of one prefill."""

    def __init__(self, backbone: Backbone, scorer: Scorer, schedules: list[Schedule], ids: Tensor) -> None:
        self._backbone, self._scorer, self._schedules = backbone, scorer, schedules
        self._steps = {layer: step for step, layer in enumerate(schedules[0].layers)}
        self.worth = torch.zeros(ids.shape, device=ids.device)
        """As `Prefill` has it."""
        self.kept: list[tuple[Tensor, Tensor]] = []
        """The same."""

    def enter(self, layer: int, tokens: Tokens, cached: Tensor | None) -> Tensor | None:
        """Before a pruning layer let only the best go on. `cached` is what the scorer said of the tokens, if
        it was asked; what of it belongs to those that go on."""
        if layer in self._steps:
            cached = self._prune(layer, tokens, cached)
        self.kept.append((tokens.columns, tokens.valid))
        return cached

    def _prune(self, layer: int, tokens: Tokens, cached: Tensor | None) -> Tensor | None:
        step, valid, given = self._steps[layer], tokens.valid, tokens.before(layer, self._backbone)
        if cached is None:
            scores = self._scorer.score(given)
        else:
            scores = self._scorer.rescore(layer, cached, given.positions, given.last)
        kept = [schedule.kept[step] for schedule in self._schedules]
        chosen = choose(scores, must_stay(valid, tokens.floor), valid, kept, tokens.segments)
        # Only what is still there: the surplus of a shorter row was scored before, or is padding.
        lived = step + rank(scores, valid) + chosen
        before = self.worth.gather(1, tokens.columns)
        self.worth.scatter_(1, tokens.columns, torch.where(valid, lived, before))
        order, filled = gather(chosen)
        tokens.keep(order, filled)
        return None if cached is None else cached.gather(1, order)


def prefill(
    backbone: Backbone,
    scorer: Scorer,
    ids: Tensor,
    valid: Tensor,
    schedules: list[Schedule],
    floor: Tensor | None,
    segments: Tensor | None,
    record: Collection[int],
) -> Prefill:
    """Read `ids`, [batch, tokens], pruned by these schedules, one a row."""
    context = EagerContext(len(ids), backbone.n_layers, ids.device)
    pruning = _Pruning(backbone, scorer, schedules, ids)
    with computing(backbone, ids):
        tokens = context.begin(backbone, ids, valid)
        tokens.floor, tokens.segments = floor, segments
        run_layers(backbone, scorer, context, tokens, record, pruning)
        context.logits = backbone.logits(tokens.last_of(tokens.hidden))
    return Prefill(context, schedules, pruning.kept, pruning.worth)


def run_layers(
    backbone: Backbone,
    scorer: Scorer,
    context: EagerContext,
    tokens: Tokens,
    record: Collection[int] = (),
    pruning: _Pruning | None = None,
) -> None:
    """Take the tokens through all layers of the context, after what it holds.

    What the scorer says before the layers of `record` is kept in the context.
    """
    # Before anything is pruned: the next position comes after all that was read, not after what is left.
    counts = tokens.valid.sum(1)
    for index, layer in enumerate(context.layers):
        cached = scorer.cacheable_score(tokens.before(index, backbone)) if index in record else None
        if pruning is not None:
            cached = pruning.enter(index, tokens, cached)
        layer.announce(tokens.positions, tokens.valid, cached)
        mask = backbone.mask(index, tokens.positions, layer.positions, layer.valid)
        tokens.hidden = backbone.run_layer(
            index, tokens.hidden, mask, tokens.positions, tokens.rotation, context
        )
    # Only now, so that `undo` still knows where a reading that broke off began.
    context.advance(counts)


@contextmanager
def computing(backbone: Backbone, ids: Tensor) -> Iterator[None]:
    """Reading so many tokens, without gradients and with the faster attention."""
    with torch.inference_mode(), folded(backbone.config), within_memory(backbone, ids.numel()):
        yield
