"""Prefill with progressive pruning, and reading on from the pruned caches. No second prefill, ever.

Survivors keep their positions, so that decoding goes on as if the dropped tokens had been masked: a test
shows that it equals just that. Two paths lead through the layers, `eager` and `static`; what they share is
here.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from brace.erecap import eager
from brace.erecap.backbone import Backbone, within_memory
from brace.erecap.context import Context, Prefill, too_long
from brace.erecap.schedule import TAIL_LEAST, Keep, Schedule, pruning_layers
from brace.erecap.scorers.base import Scorer
from brace.erecap.scorers.recency import Recency
from brace.erecap.selection import must_stay, whole_segments
from brace.erecap.static.path import StaticPath, supported
from brace.errors import ConfigError

Path = Literal["auto", "eager", "static"]


class Engine:
    """A decoder that prunes while it reads.

    The two paths through the layers give the same: the eager one can do everything; the static one
    (`brace.erecap.static`) is made for GPUs and reads single unpadded sequences, pruned by tokens. An engine
    on the static path still takes the eager one for batches, padding and segments. `auto` takes the static
    path on a GPU for models that can take it.
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
        `remember` keeps what the scorer says of the tokens, if that can be cached, so that more can go later.
        """
        ids, valid = self._checked(ids, attention_mask)
        floor = None if floor is None else _like(ids, floor, "floor").bool() & valid
        if segments is not None:
            segments = _like(ids, segments, "segments")
            # By the least tail: it shrinks on the way down, and only these few tokens are in it to the end.
            floor = whole_segments(must_stay(valid, floor, TAIL_LEAST), valid, segments)
        keep = keep or Keep()
        schedules, floors = self._schedules(valid, floor, keep)
        pruned = schedules[0].layers
        remember = remember and self.scorer.cacheable
        # Also where nothing is pruned now: a later call may have to prune what this one has read.
        record = (pruned or pruning_layers(self.backbone.n_layers)) if remember else ()
        if pruned:
            self.scorer.check_layers(pruned)
            self.scorer.prepare(self.backbone, ids, valid)
        if self._static is not None and len(ids) == 1 and segments is None and attention_mask is None:
            with torch.inference_mode(), within_memory(self.backbone, ids.shape[1]):
                return self._static.prefill(ids, schedules[0], keep, floor, floors[0], remember)
        prefill = eager.prefill(self.backbone, self.scorer, ids, valid, schedules, floor, segments, record)
        held = int(prefill.kept[-1][1].sum(1).max())
        if keep.budget is not None and held > keep.budget:
            # By segments only: how far the tail's own segments reach shows on the way down.
            raise ConfigError(
                f"a budget of {keep.budget} tokens cannot hold the {held} of the segments that head, tail "
                "and floors are in"
            )
        return prefill

    def extend(
        self,
        context: Context,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        every: bool = False,
        remember: bool = False,
    ) -> Tensor:
        """Read more tokens after what `context` holds (a chat turn, a suffix); the new logits.

        With `every` those after each of the new tokens, [batch, tokens, vocabulary]. `remember` keeps what
        the scorer says of them, in the layers where the context knows that of all others.
        """
        ids, valid = self._checked(ids, attention_mask)
        if len(ids) != len(context.next_position):
            raise ConfigError(f"{len(ids)} rows to read on {len(context.next_position)} rows of context")
        padded = None if attention_mask is None else valid
        return context.read_on(self.backbone, self.scorer, ids, padded, every=every, remember=remember)

    def _static_path(self, path: Path) -> StaticPath | None:
        if path not in ("auto", "eager", "static"):
            raise ConfigError(f"path = {path!r}: must be auto, eager or static")
        if path == "eager" or (path == "auto" and not self.backbone.on_gpu):
            return None
        with torch.inference_mode():
            # In inference mode, because layers are joined only where there are no gradients.
            why_not = supported(self.backbone)
        if why_not and path == "static":
            raise ConfigError(f"this model cannot take the static path: {why_not}; use path='eager'")
        return None if why_not else StaticPath(self.backbone, self.scorer)

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
            raise too_long(longest, self.backbone.max_positions)
        return ids, valid


def _like(ids: Tensor, marks: Tensor, what: str) -> Tensor:
    if marks.shape != ids.shape:
        raise ConfigError(f"{what} has shape {tuple(marks.shape)}, the ids {tuple(ids.shape)}")
    return marks.to(ids.device)
