"""One token through all layers. On a GPU it is captured once and replayed for every context."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from brace.erecap.backbone import Backbone
from brace.erecap.static.arena import Arena
from brace.erecap.static.context import StaticContext
from brace.erecap.static.kernels import attend_one
from brace.erecap.static.layer import fused, run


class Step:
    """The same for every context: where one lies, and how much it holds, are numbers on the device."""

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
        self._loaded: tuple[list[int], tuple[int, ...], int] | None = None

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
        lengths, position = context.lengths, context.end
        wanted = (lengths, context.block.starts, position)
        if self._loaded != wanted:
            self._starts.copy_(torch.tensor(context.block.starts))
            self._lengths.copy_(torch.tensor(lengths))
            self._position.fill_(position)
        self._loaded = ([length + 1 for length in lengths], context.block.starts, position + 1)

    def _once(self) -> Tensor:
        backbone, arena = self._backbone, self._arena
        hidden = backbone.embed(self._token)[0]
        cos, sin = backbone.rotate(hidden[None], self._position)
        at, filled = self._starts + self._lengths, self._lengths + 1
        for index in range(backbone.n_layers):
            layer = fused(backbone, index)
            start, length = self._starts[index], filled[index]

            def attend(
                queries: Tensor, start: Tensor = start, length: Tensor = length, scale: float = layer.scale
            ) -> Tensor:
                return attend_one(queries, arena.keys, arena.values, start, length, scale)

            hidden = run(layer, hidden, (cos[0], sin[0]), arena.keys, arena.values, at[index], attend)
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
