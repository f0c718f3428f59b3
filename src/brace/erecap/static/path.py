"""One sequence through the layers without waiting for the device; on a GPU, tokens one by one as a graph.

The schedule is known before a prefill begins, so how many tokens live on is a number on the host and which
ones they are never needs to be asked. On a CPU the same steps run uncaptured.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

from brace.erecap.backbone import Backbone
from brace.erecap.fused import FusedLayer, Rotation, norm
from brace.erecap.schedule import HEAD, Schedule, tail_of
from brace.erecap.scorers.base import ScoreInput, Scorer
from brace.erecap.static.arena import Arena
from brace.erecap.static.context import StaticContext
from brace.erecap.static.kernels import attend_one, gated, store
from brace.errors import BraceError

ROOM = 512
"""Tokens that may follow a prefill before its block has to be moved."""
_LONG = 4096
"""From so many tokens on cuDNN's attention is faster than flash; below, planning it anew for every length
costs more than it saves."""


def supported(backbone: Backbone) -> str:
    """Empty, or why this model cannot take this way."""
    if any(window is not None and window < backbone.max_positions for window in backbone.windows):
        return "its layers look through a window"
    if any(backbone.fused_layer(index) is None for index in range(backbone.n_layers)):
        return "its layers have adapters, hooks or quantised parts"
    if backbone.config._attn_implementation != "sdpa":
        return f"its attention is {backbone.config._attn_implementation!r}, not 'sdpa'"
    return ""


class StaticPath:
    """All contexts of one model."""

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone
        heads, width = backbone.kv_shape
        self.arena = Arena(heads, width, backbone.dtype, backbone.device)
        self._step = _Step(backbone, self.arena)

    def prefill(
        self, ids: Tensor, schedule: Schedule, floor: Tensor | None, scorer: Scorer
    ) -> tuple[StaticContext, list[Tensor]]:
        """Read `ids`, [1, tokens]; the context, and each layer's survivors as positions."""
        backbone = self._backbone
        hidden, count = backbone.embed(ids)[0], ids.shape[1]
        places = torch.arange(count, device=ids.device)
        floor = None if floor is None else floor[0]
        cos, sin = backbone.rotate(hidden[None], places[None])
        rotation = (cos[0], sin[0])
        lengths = schedule.lengths()
        # Where each layer's survivors will stand; filled in as they are chosen.
        survivors: list[Tensor] = []
        context = StaticContext(self.arena, [places[:length] for length in lengths], count, ROOM)
        starts = torch.tensor(context.block.starts, device=ids.device)
        finite = torch.ones((), dtype=torch.bool, device=ids.device)
        for index in range(backbone.n_layers):
            backbone.check()
            if index in schedule.layers:
                kept = schedule.kept[schedule.layers.index(index)]
                scores = scorer.score(_asked(index, hidden, places, rotation, backbone))[0].float()
                finite &= torch.isfinite(scores).all()
                chosen = _best(scores, floor, kept)
                hidden, places = hidden[chosen], places[chosen]
                rotation = (rotation[0][chosen], rotation[1][chosen])
                floor = None if floor is None else floor[chosen]
            attend = self._reading(context, index, 0)
            hidden = _run(self._fused(index), hidden, rotation, self.arena, starts[index], attend)
            survivors.append(places)
        context.survived(survivors)
        context.logits = backbone.logits(hidden[-1:])
        if schedule.layers and not bool(finite):
            raise BraceError("the scorer gave scores that are not finite numbers; nothing was pruned")
        return context, survivors

    def extend(self, context: StaticContext, ids: Tensor, *, every: bool) -> Tensor:
        """Read more tokens, [1, tokens]; logits, [1, vocabulary] or, with `every`, of each token."""
        count = ids.shape[1]
        context.make_room(count, ROOM)
        if count == 1:
            logits = self._step.run(context, ids)
        else:
            hidden = self._read_on(context, ids)
            logits = self._backbone.logits(hidden if every else hidden[-1:])
        context.grown(count)
        context.logits = logits[-1:]
        return logits[None] if every else context.logits

    def _read_on(self, context: StaticContext, ids: Tensor) -> Tensor:
        backbone, count = self._backbone, ids.shape[1]
        hidden = backbone.embed(ids)[0]
        positions = torch.arange(count, device=ids.device) + int(context.next_position)
        cos, sin = backbone.rotate(hidden[None], positions[None])
        lengths = context.lengths
        at = torch.tensor(context.block.starts, device=ids.device) + torch.tensor(lengths, device=ids.device)
        for index in range(backbone.n_layers):
            backbone.check()
            attend = self._reading(context, index, lengths[index])
            hidden = _run(self._fused(index), hidden, (cos[0], sin[0]), self.arena, at[index], attend)
        return hidden

    def _reading(self, context: StaticContext, index: int, before: int) -> Callable[[Tensor], Tensor]:
        """Causal attention of many tokens after `before` others, on what the layer holds then."""
        scale = self._fused(index).scale
        all_keys, all_values = self.arena.layer(context.block, index)

        def attend(queries: Tensor) -> Tensor:
            end = before + len(queries)
            q, k, v = (part.transpose(0, 1)[None] for part in (queries, all_keys[:end], all_values[:end]))
            with _backend(q, end):
                if before == 0:
                    out = functional.scaled_dot_product_attention(
                        q, k, v, is_causal=True, scale=scale, enable_gqa=True
                    )
                else:
                    groups = q.shape[1] // k.shape[1]
                    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
                    mask: Any = causal_lower_right(len(queries), end)
                    out = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
            return out[0].transpose(0, 1)

        return attend

    def _fused(self, index: int) -> FusedLayer:
        layer = self._backbone.fused_layer(index)
        if layer is None:
            raise BraceError("a layer was changed while it was in use (an adapter or a hook was put in)")
        return layer


class _Step:
    """One token through all layers. On a GPU it is captured once and replayed for every context."""

    def __init__(self, backbone: Backbone, arena: Arena) -> None:
        self._backbone, self._arena = backbone, arena
        layers, device = backbone.n_layers, backbone.device
        self._token = torch.zeros((1, 1), dtype=torch.long, device=device)
        self._position = torch.zeros((1, 1), dtype=torch.long, device=device)
        self._starts = torch.zeros(layers, dtype=torch.long, device=device)
        self._lengths = torch.zeros(layers, dtype=torch.long, device=device)
        self._graph: Any = None
        self._generation = -1
        self._logits = torch.empty(0)
        self._loaded: tuple[int, tuple[int, ...], int] | None = None

    def run(self, context: StaticContext, token: Tensor) -> Tensor:
        """The logits after it, [1, vocabulary]."""
        captured = self._backbone.device.type == "cuda"
        if captured and self._generation != self._arena.generation:
            self._capture()
        self._load(context)
        self._token.copy_(token)
        if captured:
            self._graph.replay()
        else:
            self._logits = self._once()
        return self._logits.clone()

    def _load(self, context: StaticContext) -> None:
        """Tell the device where this context lies, unless it knows from the step before."""
        lengths, position = context.lengths, int(context.next_position)
        wanted = (lengths[0], context.block.starts, position)
        if self._loaded != wanted:
            self._starts.copy_(torch.tensor(context.block.starts))
            self._lengths.copy_(torch.tensor(lengths))
            self._position.fill_(position)
        self._loaded = (lengths[0] + 1, context.block.starts, position + 1)

    def _once(self) -> Tensor:
        backbone, arena = self._backbone, self._arena
        hidden = backbone.embed(self._token)[0]
        cos, sin = backbone.rotate(hidden[None], self._position)
        at, filled = self._starts + self._lengths, self._lengths + 1
        for index in range(backbone.n_layers):
            layer = backbone.fused_layer(index)
            if layer is None:
                raise BraceError("a layer was changed while it was in use (an adapter or a hook was put in)")
            start, length = self._starts[index], filled[index]

            def attend(
                queries: Tensor, start: Tensor = start, length: Tensor = length, scale: float = layer.scale
            ) -> Tensor:
                return attend_one(queries, arena.keys, arena.values, start, length, scale)

            hidden = _run(layer, hidden, (cos[0], sin[0]), arena, at[index], attend)
        logits = backbone.logits(hidden)
        self._lengths += 1
        self._position += 1
        return logits

    def _capture(self) -> None:
        """What it runs over meanwhile is put back by the next `_load`; the arena's row 0 is written to."""
        kept = self._arena.keys[:1].clone(), self._arena.values[:1].clone()
        for register in (self._starts, self._lengths, self._position):
            register.zero_()
        side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._once()
                self._lengths.zero_()
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._logits = self._once()
        self._arena.keys[:1], self._arena.values[:1] = kept
        self._generation, self._loaded = self._arena.generation, None


def _run(
    layer: FusedLayer,
    hidden: Tensor,
    rotation: Rotation,
    arena: Arena,
    at: Tensor,
    attend: Callable[[Tensor], Tensor],
) -> Tensor:
    """One layer: keys and values go to the arena, from row `at` on, before attention looks there."""
    projected = functional.linear(norm(layer.before, hidden), layer.qkv, layer.qkv_bias)
    queries = store(layer, projected, rotation, arena.keys, arena.values, at)
    hidden = _add(hidden, attend(queries).flatten(1), layer.out, layer.after_attention)
    both = functional.linear(norm(layer.between, hidden), layer.gate_up, layer.gate_up_bias)
    return _add(hidden, gated(both), layer.down, layer.after_mlp)


def _add(hidden: Tensor, states: Tensor, linear: Any, after: Any) -> Tensor:
    """hidden + linear(states), in one product where nothing comes between."""
    if after is None and linear.bias is None:
        return torch.addmm(hidden, states, linear.weight.t())
    made = functional.linear(states, linear.weight, linear.bias)
    return hidden + (made if after is None else norm(after, made))


def _best(scores: Tensor, floor: Tensor | None, kept: int) -> Tensor:
    """The places that live on, in order: head, tail, floors, then the best; of equals the earlier."""
    count = len(scores)
    place = torch.arange(count, device=scores.device)
    stay = (place < HEAD) | (place >= count - tail_of(count))
    if floor is not None:
        stay = stay | floor
    ranked = scores.masked_fill(stay, torch.inf)
    return ranked.argsort(descending=True, stable=True)[:kept].sort().values


def _asked(layer: int, hidden: Tensor, places: Tensor, rotation: Rotation, backbone: Backbone) -> ScoreInput:
    valid = torch.ones_like(places, dtype=torch.bool)[None]
    turned = (rotation[0][None], rotation[1][None])
    return ScoreInput(layer, hidden[None], places[None], valid, places[None], turned, backbone)


def _backend(queries: Tensor, keys: int) -> AbstractContextManager[None]:
    if not queries.is_cuda or queries.dtype not in (torch.bfloat16, torch.float16):
        return nullcontext()
    long = keys >= _LONG and queries.shape[2] == keys
    return sdpa_kernel([SDPBackend.CUDNN_ATTENTION] if long else [SDPBackend.FLASH_ATTENTION])
