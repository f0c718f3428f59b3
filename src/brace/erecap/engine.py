"""Prefill with progressive pruning, and reading on from the pruned caches. No second prefill, ever.

Before a pruning layer the scorer ranks the tokens that are still there; the others leave the computation
and are absent from that layer's cache and all later ones. Survivors keep their positions, so that decoding
goes on as if the dropped tokens had been masked: a test shows that it equals just that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from brace.erecap.attention import folded
from brace.erecap.backbone import Backbone
from brace.erecap.cache import Context, KvCache
from brace.erecap.eviction import Worth
from brace.erecap.masks import mask_for
from brace.erecap.memory import within_memory
from brace.erecap.schedule import TAIL_LEAST, Keep, Schedule, pruning_layers
from brace.erecap.scorers.base import ScoreInput, Scorer
from brace.erecap.scorers.recency import Recency
from brace.erecap.selection import choose, gather, must_stay, rank, whole_segments
from brace.erecap.static.context import StaticContext
from brace.erecap.static.path import StaticPath, supported
from brace.errors import ConfigError

Path = Literal["auto", "eager", "static"]
AnyContext = Context | StaticContext


@dataclass(frozen=True)
class Prefill:
    """What a prefill left."""

    context: AnyContext
    schedules: list[Schedule]
    """One a row: what was done. By segments a layer may hold fewer."""
    masks: list[Tensor] | None = None
    """`survivors`, on the eager path."""
    ranked: Tensor | None = None
    """`worth`, on the eager path."""
    how: str = "eager"
    """Which way it went: for the record."""

    @property
    def survivors(self) -> list[Tensor]:
        """Per layer, [batch, tokens read]: which tokens of the input that layer computed."""
        if self.masks is not None or not isinstance(self.context, StaticContext):
            return self.masks or []
        made: dict[int, Tensor] = {}
        for places in self.context.survivors:
            mask = torch.zeros((1, self.schedules[0].tokens), dtype=torch.bool, device=places.device)
            made[id(places)] = made.get(id(places), mask).index_fill(1, places, True)
        return [made[id(places)] for places in self.context.survivors]

    @property
    def worth(self) -> Tensor:
        """[batch, tokens read]: pruning layers lived through, and as its fraction the rank in the last one
        that scored it. Padding and, without pruning, everything is 0."""
        if self.ranked is None:
            raise ConfigError(
                "the static path does not rank what it drops; make the engine with path='eager'"
            )
        return self.ranked


class Engine:
    """A decoder that prunes while it reads.

    There are two ways through the layers, which give the same: the eager one can do everything; the static
    one (`brace.erecap.static`) is made for GPUs and reads single unpadded sequences, pruned by tokens. An
    engine on the static path still goes the eager way with batches, padding and segments. `auto` takes the
    static path on a GPU for models that can take it.
    """

    def __init__(self, model: Any, scorer: Scorer | None = None, path: Path = "auto") -> None:
        self.backbone = Backbone(model)
        self.scorer: Scorer = scorer or Recency()
        self.scorer.check(self.backbone)
        self._static = self._static_path(path)

    def prefill(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        keep: Keep | None = None,
        floor: Tensor | None = None,
        segments: Tensor | None = None,
        remember: bool = False,
    ) -> Prefill:
        """Read `ids`, [batch, tokens], padded left or right where `attention_mask` is 0.

        `floor` marks tokens that are never dropped; `segments` numbers the segment of each token, and then a
        segment lives or dies as a whole (a token of none, numbered below 0, goes unless it is protected).
        `remember` notes what tokens are worth, if the scorer's judgements last, so that more can go later.
        """
        ids, valid = self._checked(ids, attention_mask)
        floor = None if floor is None else _like(ids, floor, "floor").bool() & valid
        if segments is not None:
            segments = _like(ids, segments, "segments")
            floor = whole_segments(must_stay(valid, floor, TAIL_LEAST), valid, segments)
        schedules, floors = self._schedules(valid, floor, keep or Keep())
        if schedules[0].layers:
            self.scorer.check_layers(schedules[0].layers)
            self.scorer.prepare(self.backbone, ids, valid)
        if self._static is not None and len(ids) == 1 and segments is None and attention_mask is None:
            with torch.inference_mode(), within_memory(self.backbone, ids.shape[1]):
                made = self._static.prefill(
                    ids, schedules[0], keep or Keep(), floor, floors[0], remember and self.scorer.lasts
                )
            return Prefill(made.context, [made.schedule], how=made.how)
        with torch.inference_mode(), folded(self.backbone.config), within_memory(self.backbone, ids.numel()):
            prefill = self._read(ids, valid, schedules, floor, segments, remember and self.scorer.lasts)
        held = int(prefill.survivors[-1].sum(1).max())
        if keep is not None and keep.budget is not None and held > keep.budget:
            # By segments only: how far the tail's own segments reach shows on the way down.
            raise ConfigError(
                f"a budget of {keep.budget} tokens cannot hold the {held} of the segments that head, tail "
                "and floors are in"
            )
        return prefill

    def extend(
        self,
        context: AnyContext,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        every: bool = False,
        remember: bool = False,
    ) -> Tensor:
        """Read more tokens after what `context` holds (a chat turn, a suffix); the new logits.

        With `every` those after each of the new tokens, [batch, tokens, vocabulary]. `remember` notes what
        they are worth, if the context knows that of all others.
        """
        ids, valid = self._checked(ids, attention_mask)
        if len(ids) != len(context.next_position):
            raise ConfigError(f"{len(ids)} rows to read on {len(context.next_position)} rows of context")
        backbone = self.backbone
        if isinstance(context, StaticContext):
            return self._extend_static(context, ids, attention_mask, every, remember)
        positions = context.next_position[:, None] + (valid.cumsum(1) - 1).clamp(min=0)
        if int(positions.max()) >= backbone.max_positions:
            raise ConfigError(_too_long(int(positions.max()) + 1, backbone.max_positions))
        with torch.inference_mode(), folded(backbone.config), within_memory(backbone, ids.numel()):
            hidden = backbone.embed(ids)
            rotation = backbone.rotate(hidden, positions)
            for layer in range(backbone.n_layers):
                if remember and context.worth is not None and layer in context.worth:
                    given = ScoreInput(layer, hidden, positions, valid, positions, rotation, backbone)
                    context.note(layer, self.scorer.lasting(given))
                context.append(layer, positions, valid)
                mask = mask_for(backbone, layer, positions, context.positions[layer], context.valid[layer])
                hidden = backbone.run_layer(layer, hidden, mask, positions, rotation, context.cache)
            context.next_position = context.next_position + valid.sum(1)
            if every:
                logits = backbone.logits(hidden)
                context.logits = _last(logits, positions, valid)
                return logits
            context.logits = backbone.logits(_last(hidden, positions, valid))
        return context.logits

    def _static_path(self, path: Path) -> StaticPath | None:
        if path not in ("auto", "eager", "static"):
            raise ConfigError(f"path = {path!r}: must be auto, eager or static")
        if path == "eager" or (path == "auto" and self.backbone.device.type != "cuda"):
            return None
        with torch.inference_mode():
            why_not = supported(self.backbone)
        if why_not and path == "static":
            raise ConfigError(f"this model cannot take the static path: {why_not}; use path='eager'")
        return None if why_not else StaticPath(self.backbone, self.scorer)

    def _extend_static(
        self, context: StaticContext, ids: Tensor, attention_mask: Tensor | None, every: bool, remember: bool
    ) -> Tensor:
        if attention_mask is not None:
            raise ConfigError("a context of the static path is read on without padding")
        end = context.end + ids.shape[1]
        if end > self.backbone.max_positions:
            raise ConfigError(_too_long(end, self.backbone.max_positions))
        if self._static is None:
            raise ConfigError("this context is of another engine, on the static path")
        with torch.inference_mode(), within_memory(self.backbone, ids.shape[1]):
            return self._static.extend(context, ids, every=every, remember=remember)

    def _read(
        self,
        ids: Tensor,
        valid: Tensor,
        schedules: list[Schedule],
        floor: Tensor | None,
        segments: Tensor | None,
        remember: bool,
    ) -> Prefill:
        backbone = self.backbone
        positions = (valid.cumsum(1) - 1).clamp(min=0)
        next_position = valid.sum(1)
        places = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        hidden = backbone.embed(ids)
        rotation = backbone.rotate(hidden, positions)
        rotation = (rotation[0].expand(len(ids), -1, -1), rotation[1].expand(len(ids), -1, -1))
        cache = KvCache()
        worth = torch.zeros(ids.shape, device=ids.device)
        all_positions, all_valid, survivors = [], [], []
        steps = {layer: step for step, layer in enumerate(schedules[0].layers)} if schedules else {}
        noting = (schedules[0].layers or pruning_layers(backbone.n_layers)) if remember else ()
        noted: Worth = {}
        for layer in range(backbone.n_layers):
            given = ScoreInput(layer, hidden, positions, valid, places, rotation, backbone)
            if layer in noting:
                noted[layer] = self.scorer.lasting(given)
            if layer in steps:
                scores = (
                    self.scorer.again(layer, noted[layer], positions, given.last)
                    if layer in noting
                    else self.scorer.score(given)
                )
                kept = [schedule.kept[steps[layer]] for schedule in schedules]
                chosen = choose(scores, must_stay(valid, floor), valid, kept, segments)
                # Only what is still there: the surplus of a shorter row was scored before, or is padding.
                lived = steps[layer] + rank(scores, valid) + chosen
                worth.scatter_(1, places, torch.where(valid, lived, worth.gather(1, places)))
                order, filled = gather(chosen)
                hidden, rotation = (
                    _take(hidden, order),
                    (_take(rotation[0], order), _take(rotation[1], order)),
                )
                positions, places = positions.gather(1, order), places.gather(1, order)
                valid = filled
                if layer in noting:
                    noted[layer] = noted[layer].gather(1, order)
                floor = None if floor is None else floor.gather(1, order)
                segments = None if segments is None else segments.gather(1, order)
            mask = mask_for(backbone, layer, positions, positions, valid)
            hidden = backbone.run_layer(layer, hidden, mask, positions, rotation, cache)
            all_positions.append(positions)
            all_valid.append(valid)
            seen = torch.zeros_like(ids, dtype=torch.bool)
            survivors.append(seen.scatter(1, places, valid))
        logits = backbone.logits(_last(hidden, positions, valid))
        context = Context(cache, all_positions, all_valid, next_position, logits, noted or None)
        return Prefill(context, schedules, survivors, worth)

    def _schedules(self, valid: Tensor, floor: Tensor | None, keep: Keep) -> tuple[list[Schedule], list[int]]:
        """One a row, and how many floors it has outside its head and tail."""
        lengths = valid.sum(1).tolist()
        extra = [0] * len(lengths)
        if floor is not None:
            # The tail shrinks on the way down to these few: floors in the rest of it count.
            always = must_stay(valid, None, TAIL_LEAST)
            extra = (floor & ~always).sum(1).tolist()
        rows = [keep.schedule(n, self.backbone.n_layers, e) for n, e in zip(lengths, extra, strict=True)]
        pruned = next((row.layers for row in rows if row.layers), ())
        # A row short enough to be kept whole still walks through the others' pruning layers.
        return [
            row if row.layers else Schedule(row.tokens, row.n_layers, pruned, (row.tokens,) * len(pruned))
            for row in rows
        ], extra

    def _checked(self, ids: Tensor, attention_mask: Tensor | None) -> tuple[Tensor, Tensor]:
        if ids.dim() != 2 or ids.shape[0] == 0 or ids.shape[1] == 0:
            raise ConfigError(
                f"expected token ids of shape [batch, tokens], both at least 1, not {tuple(ids.shape)}"
            )
        ids = ids.to(self.backbone.device)
        valid = torch.ones_like(ids, dtype=torch.bool)
        if attention_mask is not None:
            valid = _like(ids, attention_mask, "attention_mask").bool()
        if not valid.any(1).all():
            raise ConfigError("a row of the batch is all padding: an empty context cannot be read")
        longest = int(valid.sum(1).max())
        if longest > self.backbone.max_positions:
            raise ConfigError(_too_long(longest, self.backbone.max_positions))
        return ids, valid


def _last(states: Tensor, positions: Tensor, valid: Tensor) -> Tensor:
    """Each row's state at its last real token."""
    last = positions.masked_fill(~valid, -1).argmax(1)
    return states[torch.arange(len(last)), last]


def _take(values: Tensor, order: Tensor) -> Tensor:
    return values.gather(1, order[:, :, None].expand(-1, -1, values.shape[2]))


def _like(ids: Tensor, marks: Tensor, what: str) -> Tensor:
    if marks.shape != ids.shape:
        raise ConfigError(f"{what} has shape {tuple(marks.shape)}, the ids {tuple(ids.shape)}")
    return marks.to(ids.device)


def _too_long(tokens: int, positions: int) -> str:
    return f"a context of {tokens} tokens does not fit the model's {positions} positions; shorten it first"
