"""Reading on after what a context holds: between two attentions everything is one graph.

How far an attention looks back is known to the host only, and differs from call to call, so it is launched
as it is; all the rest depends on nothing but the number of new tokens, which comes in buckets. Launching that
piece by piece would take the host longer than the GPU needs. On a CPU, and for long texts, the same steps run
uncaptured.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from brace.erecap.backbone import Backbone
from brace.erecap.fused import go_on
from brace.erecap.scorers.base import Scorer
from brace.erecap.static.arena import Arena
from brace.erecap.static.buckets import bucket_of
from brace.erecap.static.context import StaticContext
from brace.erecap.static.layer import after, before, causal, fused
from brace.erecap.static.reading import asked_of

_LARGEST = 1024
"""More new tokens keep a GPU busy without graphs."""


@dataclass
class _Desk:
    """What a reading of so many new tokens works on; it stays in place, so that graphs can be replayed."""

    ids: Tensor
    start: Tensor
    """Where the first of them stands."""
    at: Tensor
    """Each layer's next free row."""
    hidden: Tensor
    cos: Tensor
    sin: Tensor
    queries: Tensor
    attended: Tensor
    noting: tuple[int, ...]
    noted: dict[int, Tensor] = field(default_factory=dict)
    graphs: list[Any] = field(default_factory=list)


class Suffixes:
    """All contexts of one model."""

    def __init__(self, backbone: Backbone, scorer: Scorer, arena: Arena) -> None:
        self._backbone, self._scorer, self._arena = backbone, scorer, arena
        self._desks: dict[tuple[int, tuple[int, ...]], _Desk] = {}
        self._generation = -1
        self._pool: Any = None

    def size(self, count: int, noting: tuple[int, ...]) -> int:
        """How many rows a reading of so many tokens writes to: their bucket, where there is one."""
        return (bucket_of(count) or count) if self._captured(count, noting) else count

    def read(self, context: StaticContext, ids: Tensor, noting: tuple[int, ...]) -> Tensor:
        """The states of `ids`, [1, tokens], after the last layer; they stay until the next reading.

        The context has room for `size`, and notes what the scorer says before the layers in `noting`.
        """
        count = ids.shape[1]
        size, captured = self.size(count, noting), self._captured(count, noting)
        desk = self._known(size, noting) if captured else None
        new = desk is None
        desk = desk or self._set_up(size, noting)
        desk.ids[:, :count] = ids
        desk.start.fill_(context.end)
        free = [start + held for start, held in zip(context.block.starts, context.lengths, strict=True)]
        desk.at.copy_(torch.tensor(free))
        for index in range(self._backbone.n_layers):
            self._backbone.check()
            self._run(desk, index)
            if index in noting:
                context.note(index, desk.noted[index][:, :count].clone())
            part = slice(context.block.starts[index], free[index] + count)
            keys, values = self._arena.keys[part], self._arena.values[part]
            seen = causal(desk.queries[:count], keys, values, fused(self._backbone, index).scale)
            desk.attended[:count] = seen.flatten(1)
        self._run(desk, self._backbone.n_layers)
        hidden = desk.hidden[:count]
        if captured and new:
            hidden = hidden.clone()
            start = time.perf_counter()
            self._capture(desk)
            self._desks[size, noting] = desk
            context.told = f"suffixes of {size} tokens captured in {time.perf_counter() - start:.2f} s"
        return hidden

    def _captured(self, count: int, noting: tuple[int, ...]) -> bool:
        possible = self._backbone.device.type == "cuda" and (self._scorer.capturable or not noting)
        return possible and count <= _LARGEST

    def _known(self, size: int, noting: tuple[int, ...]) -> _Desk | None:
        if self._generation != self._arena.generation:
            self._desks.clear()
            self._generation = self._arena.generation
        return self._desks.get((size, noting))

    def _set_up(self, size: int, noting: tuple[int, ...]) -> _Desk:
        backbone, device = self._backbone, self._backbone.device
        one = fused(backbone, 0)
        # Padding is computed along, row by row, and looked at by nobody: it only has to be some number.
        wide = torch.zeros((size, one.heads * one.width), dtype=backbone.dtype, device=device)
        ids = torch.zeros((1, size), dtype=torch.long, device=device)
        hidden = backbone.embed(ids)[0]
        cos, sin = backbone.rotate(hidden[None], torch.arange(size, device=device)[None])
        return _Desk(
            ids=ids,
            start=torch.zeros(1, dtype=torch.long, device=device),
            at=torch.zeros(backbone.n_layers, dtype=torch.long, device=device),
            hidden=hidden.clone(),
            cos=cos[0].clone(),
            sin=sin[0].clone(),
            queries=wide.view(size, one.heads, one.width),
            attended=torch.zeros_like(wide),
            noting=noting,
        )

    def _run(self, desk: _Desk, index: int) -> None:
        """What comes before the attention of a layer, and since that of the one before."""
        if desk.graphs:
            desk.graphs[index].replay()
        else:
            self._between(desk, index)

    def _between(self, desk: _Desk, index: int) -> None:
        backbone = self._backbone
        positions = desk.start + torch.arange(desk.ids.shape[1], device=desk.ids.device)
        if index == 0:
            desk.hidden.copy_(backbone.embed(desk.ids)[0])
            cos, sin = backbone.rotate(desk.hidden[None], positions[None])
            desk.cos.copy_(cos[0])
            desk.sin.copy_(sin[0])
        else:
            hidden = after(fused(backbone, index - 1), desk.hidden, desk.attended)
            if hidden is not desk.hidden:
                desk.hidden.copy_(hidden)
        if index == backbone.n_layers:
            return
        rotation = (desk.cos, desk.sin)
        if index in desk.noting:
            everyone = torch.ones_like(positions, dtype=torch.bool)
            asked = asked_of(index, desk.hidden, positions, everyone, rotation, backbone)
            desk.noted[index] = self._scorer.lasting(asked)
        arena = self._arena
        desk.queries.copy_(
            before(fused(backbone, index), desk.hidden, rotation, arena.keys, arena.values, desk.at[index])
        )

    def _capture(self, desk: _Desk) -> None:
        """Everything was just run, so kernels are chosen and compiled; capturing runs nothing."""
        check, self._backbone.check = self._backbone.check, go_on
        graphs: list[Any] = []
        try:
            for index in range(self._backbone.n_layers + 1):
                graph: Any = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=self._pool):
                    self._between(desk, index)
                self._pool = self._pool or graph.pool()
                graphs.append(graph)
        finally:
            self._backbone.check = check
        desk.graphs = graphs
