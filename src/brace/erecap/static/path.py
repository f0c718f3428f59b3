"""One sequence through the layers without waiting for the device; on a GPU, short ones as graphs."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import Tensor

from brace.erecap.backbone import Backbone, within_memory
from brace.erecap.context import Prefill
from brace.erecap.schedule import Keep, Schedule, pruning_layers
from brace.erecap.scorers.base import Scorer
from brace.erecap.static.buckets import BreakEven, bucket_of, quantum, shape_of
from brace.erecap.static.context import StaticBuffers, StaticContext
from brace.erecap.static.extend import DecodeStep, SuffixReader
from brace.erecap.static.prefill import Event, GraphKey, Outputs, PrefillGraphs, Target, counts_of, read
from brace.errors import BraceError, ConfigError

ROOM = 512
"""Tokens that may follow a prefill before its context has to be moved."""
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def supported(backbone: Backbone) -> str:
    """Empty, or why this model cannot take this path."""
    # A window as long as the model's positions hides nothing.
    if any(window is not None and window < backbone.max_positions for window in backbone.windows):
        return "its layers look through a window"
    if backbone.on_gpu and backbone.dtype not in DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        return f"its weights are {str(backbone.dtype).removeprefix('torch.')}; on a GPU it takes {names}"
    if any(backbone.fused_layer(index) is None for index in range(backbone.n_layers)):
        return "its layers have adapters, hooks or quantised parts"
    if backbone.config._attn_implementation != "sdpa":
        return f"its attention is {backbone.config._attn_implementation!r}, not 'sdpa'"
    return ""


class StaticPath:
    """All contexts of one model."""

    def __init__(self, backbone: Backbone, scorer: Scorer) -> None:
        self._backbone, self._scorer = backbone, scorer
        heads, width = backbone.kv_shape
        self.buffers = StaticBuffers(heads, width, backbone.dtype, backbone.device)
        self._step = DecodeStep(backbone, self.buffers)
        self._graphs = PrefillGraphs(backbone, scorer, self.buffers)
        self._suffixes = SuffixReader(backbone, scorer, self.buffers)
        self._break_even = BreakEven()

    def prefill(
        self,
        ids: Tensor,
        schedule: Schedule,
        keep: Keep,
        floor: Tensor | None,
        floors: int,
        remember: bool,
    ) -> Prefill:
        """Read `ids`, [1, tokens], of which `floors` are protected besides head and tail."""
        kind = _kind(schedule, keep)
        why_not = self._break_even.why_not(kind)
        if why_not:
            schedule = Schedule(schedule.tokens, schedule.n_layers, (), ())
            keep, floor, floors = Keep(), None, 0
        marks = None if floor is None or not schedule.layers else floor[0]
        shape = (
            shape_of(schedule, keep, floors)
            if self._scorer.capturable or not (schedule.layers or remember)
            else None
        )
        captured, took = shape is not None, 0.0
        if shape is None:
            kept = tuple(quantum(count) for count in schedule.kept)
            shape = Schedule(quantum(schedule.tokens), schedule.n_layers, schedule.layers, kept)
        record = pruning_layers(schedule.n_layers) if remember and not schedule.layers else ()
        key = GraphKey(shape, marks is not None, record)
        context = StaticContext(self, schedule, shape, ROOM)
        if captured:
            took = self._graphs.ready(key)
            made = self._graphs.read(ids[0], marks, schedule, key, context.allocation)
        else:
            made = self._read(ids[0], marks, schedule, key, context, kind)
        # Only here, where all of the reading has been launched, may the host wait for the device.
        if schedule.layers and not bool(made.finite):
            raise BraceError("the scorer gave scores that are not finite numbers; nothing was pruned")
        # Not strict: a scorer whose scores cannot be cached leaves none.
        context.filled(
            made.logits, made.places, dict(zip(schedule.layers or record, made.scores, strict=False))
        )
        if captured and kind is not None and not self._break_even.known(kind) and self._backbone.on_gpu:
            took += self._weigh(kind, key)
        note = f"bucket of {shape.tokens} tokens" if captured else "static, no bucket"
        note += f", captured in {took:.2f} s" if took else ""
        note += f"; {why_not}" if why_not else ""
        return Prefill(context, [schedule], context.kept(), path_note=note)

    def extend(
        self, context: StaticContext, backbone: Backbone, ids: Tensor, *, every: bool, remember: bool
    ) -> Tensor:
        """Read more tokens, [1, tokens]; logits, [1, vocabulary] or, with `every`, of each token."""
        if backbone is not self._backbone:
            raise ConfigError("this context is of another engine, on the static path")
        count = ids.shape[1]
        context.capture_note = ""
        with torch.inference_mode(), within_memory(backbone, count):
            record = tuple(context.complete_scores()) if remember else ()
            scores: dict[int, Tensor] = {}
            if count == 1 and not record:
                context.make_room(1, ROOM)
                logits = self._step.run(context, ids)
            else:
                context.make_room(self._suffixes.size(count, record), ROOM)
                hidden, scores = self._suffixes.read(context, ids, record)
                logits = backbone.logits(hidden if every else hidden[-1:])
            context.grow(count, scores)
            context.logits = logits[-1:]
        return logits[None] if every else context.logits

    def _read(
        self,
        ids: Tensor,
        floor: Tensor | None,
        schedule: Schedule,
        key: GraphKey,
        context: StaticContext,
        kind: Hashable,
    ) -> Outputs:
        """Uncaptured, straight into the context's allocation."""
        shape = key.shape
        padding = (0, shape.tokens - len(ids))
        ids = torch.nn.functional.pad(ids, padding)
        floor = None if floor is None else torch.nn.functional.pad(floor, padding)
        counts = torch.tensor(counts_of(schedule)).to(ids.device)
        starts = context.allocation.starts
        target = Target(self.buffers.keys, self.buffers.values, starts, torch.tensor(starts).to(ids.device))
        timed = self._backbone.on_gpu and kind is not None and not self._break_even.known(kind)
        events = [Event(enable_timing=True) for _ in range(3)] if timed else None
        made = read(self._backbone, self._scorer, ids, floor, key, counts, target, events)
        if events is not None:
            events[2].synchronize()
            each = events[0].elapsed_time(events[1]) / shape.layers[0]
            self._break_even.learn(kind, each * shape.n_layers, events[0].elapsed_time(events[2]))
        return made

    def _weigh(self, kind: Hashable, key: GraphKey) -> float:
        """Time a captured prefill against one of the whole; the seconds that took to prepare.

        Layers before the first that prunes show what one takes with all tokens.
        """
        shape = key.shape
        first = GraphKey(Schedule(shape.tokens, shape.layers[0], (), ()))
        took = self._graphs.ready(first)
        whole = self._graphs.timed(first) / shape.layers[0] * shape.n_layers
        self._graphs.drop(first)
        self._break_even.learn(kind, whole, self._graphs.timed(key), tries=3)
        return took


def _kind(schedule: Schedule, keep: Keep) -> Hashable:
    """Texts that pruning serves alike; None for those where it is not a question of time. A budget is a
    promise; a ratio is there to save time."""
    if not schedule.layers or keep.ratio is None:
        return None
    return keep, bucket_of(schedule.tokens) or quantum(schedule.tokens)
