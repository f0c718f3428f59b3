"""One sequence through the layers without waiting for the device; on a GPU, short ones as graphs."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from brace.erecap.backbone import Backbone
from brace.erecap.schedule import Keep, Schedule, pruning_layers
from brace.erecap.scorers.base import Scorer
from brace.erecap.static.arena import Arena
from brace.erecap.static.breakeven import BreakEven
from brace.erecap.static.buckets import bucket_of, quantum, shape_of
from brace.erecap.static.context import StaticContext
from brace.erecap.static.graphs import Graphs
from brace.erecap.static.reading import Form, Mark, Read, Rows, counts_of, read
from brace.erecap.static.step import Step
from brace.erecap.static.suffix import Suffixes
from brace.errors import BraceError

ROOM = 512
"""Tokens that may follow a prefill before its block has to be moved."""
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def supported(backbone: Backbone) -> str:
    """Empty, or why this model cannot take this way."""
    if any(window is not None and window < backbone.max_positions for window in backbone.windows):
        return "its layers look through a window"
    if backbone.device.type == "cuda" and backbone.dtype not in DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        return f"its weights are {str(backbone.dtype).removeprefix('torch.')}; on a GPU it takes {names}"
    if any(backbone.fused_layer(index) is None for index in range(backbone.n_layers)):
        return "its layers have adapters, hooks or quantised parts"
    if backbone.config._attn_implementation != "sdpa":
        return f"its attention is {backbone.config._attn_implementation!r}, not 'sdpa'"
    return ""


@dataclass(frozen=True)
class StaticPrefill:
    """What a prefill on this path left."""

    context: StaticContext
    schedule: Schedule
    """What was done: not what was asked for where pruning would not have paid."""
    how: str


class StaticPath:
    """All contexts of one model."""

    def __init__(self, backbone: Backbone, scorer: Scorer) -> None:
        self._backbone, self._scorer = backbone, scorer
        heads, width = backbone.kv_shape
        self.arena = Arena(heads, width, backbone.dtype, backbone.device)
        self._step = Step(backbone, self.arena)
        self._graphs = Graphs(backbone, scorer, self.arena)
        self._suffixes = Suffixes(backbone, scorer, self.arena)
        self._pays = BreakEven()

    def prefill(
        self,
        ids: Tensor,
        schedule: Schedule,
        keep: Keep,
        floor: Tensor | None,
        floors: int,
        remember: bool,
    ) -> StaticPrefill:
        """Read `ids`, [1, tokens], of which `floors` are protected besides head and tail."""
        kind = _kind(schedule, keep)
        why_not = self._pays.why_not(kind)
        if why_not:
            schedule, keep, floor, floors = _whole(schedule), Keep(), None, 0
        marks = None if floor is None or not schedule.layers else floor[0]
        shape = (
            shape_of(schedule, keep, floors)
            if self._scorer.capturable or not (schedule.layers or remember)
            else None
        )
        captured, took = shape is not None, 0.0
        if shape is None:
            shape = _quantised(schedule)
        noting = pruning_layers(schedule.n_layers) if remember and not schedule.layers else ()
        form = Form(shape, marks is not None, noting)
        context = StaticContext(self.arena, schedule, shape, ROOM)
        if captured:
            took = self._graphs.ready(form)
            made = self._graphs.read(ids[0], marks, schedule, form, context.block)
        else:
            made = self._read(ids[0], marks, schedule, form, context, kind)
        if schedule.layers and not bool(made.finite):
            raise BraceError("the scorer gave scores that are not finite numbers; nothing was pruned")
        context.filled(
            made.logits, made.places, dict(zip(schedule.layers or noting, made.noted, strict=False))
        )
        if captured and kind is not None and not self._pays.known(kind) and self._on_gpu:
            took += self._weigh(kind, form)
        return StaticPrefill(context, schedule, _how(shape, captured, took, why_not))

    def extend(self, context: StaticContext, ids: Tensor, *, every: bool, remember: bool) -> Tensor:
        """Read more tokens, [1, tokens]; logits, [1, vocabulary] or, with `every`, of each token."""
        count = ids.shape[1]
        noting = tuple(context.worth) if remember and context.worth is not None else ()
        context.told = ""
        if count == 1 and not noting:
            context.make_room(1, ROOM)
            logits = self._step.run(context, ids)
        else:
            context.make_room(self._suffixes.size(count, noting), ROOM)
            hidden = self._suffixes.read(context, ids, noting)
            logits = self._backbone.logits(hidden if every else hidden[-1:])
        context.grown(count)
        context.logits = logits[-1:]
        return logits[None] if every else context.logits

    @property
    def _on_gpu(self) -> bool:
        return self._backbone.device.type == "cuda"

    def _read(
        self,
        ids: Tensor,
        floor: Tensor | None,
        schedule: Schedule,
        form: Form,
        context: StaticContext,
        kind: Hashable,
    ) -> Read:
        """Uncaptured, straight into the context's block."""
        shape = form.shape
        padding = (0, shape.tokens - len(ids))
        ids = torch.nn.functional.pad(ids, padding)
        floor = None if floor is None else torch.nn.functional.pad(floor, padding)
        counts = torch.tensor(counts_of(schedule)).to(ids.device)
        starts = context.block.starts
        rows = Rows(self.arena.keys, self.arena.values, starts, torch.tensor(starts).to(ids.device))
        watched = self._on_gpu and kind is not None and not self._pays.known(kind)
        marks = [Mark(enable_timing=True) for _ in range(3)] if watched else None
        made = read(self._backbone, self._scorer, ids, floor, form, counts, rows, marks)
        if marks is not None:
            marks[2].synchronize()
            each = marks[0].elapsed_time(marks[1]) / shape.layers[0]
            self._pays.learn(kind, each * shape.n_layers, marks[0].elapsed_time(marks[2]))
        return made

    def _weigh(self, kind: Hashable, form: Form) -> float:
        """Time a captured reading against one of the whole; the seconds that took to prepare.

        Layers before the first that prunes show what one takes with all tokens.
        """
        shape = form.shape
        first = Form(Schedule(shape.tokens, shape.layers[0], (), ()))
        took = self._graphs.ready(first)
        whole = self._graphs.timed(first) / shape.layers[0] * shape.n_layers
        self._graphs.drop(first)
        self._pays.learn(kind, whole, self._graphs.timed(form), tries=3)
        return took


def _whole(schedule: Schedule) -> Schedule:
    return Schedule(schedule.tokens, schedule.n_layers, (), ())


def _quantised(schedule: Schedule) -> Schedule:
    kept = tuple(quantum(count) for count in schedule.kept)
    return Schedule(quantum(schedule.tokens), schedule.n_layers, schedule.layers, kept)


def _kind(schedule: Schedule, keep: Keep) -> Hashable:
    """Texts that pruning serves alike; None for those where it is not a question of time. A budget is a
    promise; a ratio is there to save time."""
    if not schedule.layers or keep.ratio is None:
        return None
    return keep, bucket_of(schedule.tokens) or quantum(schedule.tokens)


def _how(shape: Schedule, captured: bool, took: float, why_not: str) -> str:
    """For the record."""
    way = f"bucket of {shape.tokens} tokens" if captured else "static, no bucket"
    cold = f", captured in {took:.2f} s" if took else ""
    return way + cold + (f"; {why_not}" if why_not else "")
