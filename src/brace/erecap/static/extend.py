"""Reading on after what a context holds, on the static path: one token, or a suffix.

The step of one token is one graph for every context: where one lies, and how much it holds, are numbers on
the device. Of a suffix everything between two attentions is one graph: how far an attention looks back is
known to the host only, and differs from call to call, so it is launched as it is; all the rest depends on
nothing but the number of new tokens, which comes in buckets. Launching that piece by piece would take the
host longer than the GPU needs. On a CPU, and for long suffixes, the same steps run uncaptured.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from brace.erecap.backbone import Backbone
from brace.erecap.scorers.base import Scorer
from brace.erecap.static.buckets import bucket_of
from brace.erecap.static.context import StaticBuffers, StaticContext
from brace.erecap.static.layer import after, attend_one, before, causal, fused, run
from brace.erecap.static.prefill import capture, score_input, warm_up

_LARGEST = 1024
"""More new tokens keep a GPU busy without graphs."""


class DecodeStep:
    """One token through all layers. On a GPU it is captured once and replayed for every context."""

    def __init__(self, backbone: Backbone, buffers: StaticBuffers) -> None:
        self._backbone, self._buffers = backbone, buffers
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
        captured = self._backbone.on_gpu
        if captured and self._generation != self._buffers.generation:
            self._capture()
        # The device knows from the step before where this context lies, unless that was for another.
        lengths, starts, position = context.lengths(), context.allocation.starts, context.end
        if self._loaded != (lengths, starts, position):
            self._starts.copy_(torch.tensor(starts))
            self._lengths.copy_(torch.tensor(lengths))
            self._position.fill_(position)
        self._loaded = ([length + 1 for length in lengths], starts, position + 1)
        self._token.copy_(token)
        if captured:
            self._graph.replay()
        else:
            self._logits = self._once()
        # A graph writes to the same tensor each time it is replayed.
        return self._logits.clone()

    def _once(self) -> Tensor:
        backbone, buffers = self._backbone, self._buffers
        hidden = backbone.embed(self._token)[0]
        cos, sin = backbone.rotate(hidden[None], self._position)
        at, filled = self._starts + self._lengths, self._lengths + 1
        for index in range(backbone.n_layers):
            layer = fused(backbone, index)
            start, length = self._starts[index], filled[index]

            def attend(
                queries: Tensor, start: Tensor = start, length: Tensor = length, scale: float = layer.scale
            ) -> Tensor:
                return attend_one(queries, buffers.keys, buffers.values, start, length, scale)

            hidden = run(layer, hidden, (cos[0], sin[0]), buffers.keys, buffers.values, at[index], attend)
        logits = backbone.logits(hidden)
        # Within the graph, so that the host need send nothing for the next token of the same context.
        self._lengths += 1
        self._position += 1
        return logits

    def _capture(self) -> None:
        """The next step loads again what this overwrites, but for row 0 of the buffers, which is put back."""
        buffers = self._buffers
        kept = buffers.keys[:1].clone(), buffers.values[:1].clone()
        for register in (self._starts, self._lengths, self._position):
            register.zero_()

        def twice() -> None:
            for _ in range(2):
                self._once()
                self._lengths.zero_()

        warm_up(twice)
        self._graph, self._logits = capture(self._once)
        buffers.keys[:1], buffers.values[:1] = kept
        self._generation, self._loaded = buffers.generation, None


@dataclass
class _SuffixBuffers:
    """What a suffix of so many tokens is read in; it stays in place, so that graphs can be replayed."""

    ids: Tensor
    start: Tensor
    """The position of the first of them."""
    at: Tensor
    """Each layer's next free row."""
    hidden: Tensor
    cos: Tensor
    sin: Tensor
    queries: Tensor
    attended: Tensor
    record: tuple[int, ...]
    scores: dict[int, Tensor] = field(default_factory=dict)
    """What the scorer says before the layers of `record`."""
    graphs: list[Any] = field(default_factory=list)


class SuffixReader:
    """Several tokens through all layers, for all contexts of one model."""

    def __init__(self, backbone: Backbone, scorer: Scorer, buffers: StaticBuffers) -> None:
        self._backbone, self._scorer, self._buffers = backbone, scorer, buffers
        self._known: dict[tuple[int, tuple[int, ...]], _SuffixBuffers] = {}
        self._generation = -1
        self._pool: Any = None

    def size(self, count: int, record: tuple[int, ...]) -> int:
        """How many rows a reading of so many tokens writes to: their bucket, where there is one."""
        return (bucket_of(count) or count) if self._captured(count, record) else count

    def read(
        self, context: StaticContext, ids: Tensor, record: tuple[int, ...]
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """The states of `ids`, [1, tokens], after the last layer, and what the scorer says of them before the
        layers of `record`; both stay until the next reading.

        The context has room for `size`.
        """
        count = ids.shape[1]
        size, captured = self.size(count, record), self._captured(count, record)
        if captured and self._generation != self._buffers.generation:
            self._known.clear()
            self._generation = self._buffers.generation
        known = self._known.get((size, record)) if captured else None
        own = known or self._set_up(size, record)
        own.ids[:, :count] = ids
        own.start.fill_(context.end)
        starts = context.allocation.starts
        free = [start + held for start, held in zip(starts, context.lengths(), strict=True)]
        own.at.copy_(torch.tensor(free))
        for index in range(self._backbone.n_layers):
            self._backbone.check()
            self._run(own, index)
            part = slice(starts[index], free[index] + count)
            keys, values = self._buffers.keys[part], self._buffers.values[part]
            seen = causal(own.queries[:count], keys, values, fused(self._backbone, index).scale)
            own.attended[:count] = seen.flatten(1)
        self._run(own, self._backbone.n_layers)
        hidden = own.hidden[:count]
        scores = {index: own.scores[index][:, :count] for index in record}
        if captured and known is None:
            hidden = hidden.clone()
            start = time.perf_counter()
            # Everything was just run, so kernels are chosen and compiled; capturing runs nothing.
            graphs: list[Any] = []
            for index in range(self._backbone.n_layers + 1):
                graph, _ = capture(partial(self._between, own, index), self._pool)
                # One pool of memory for all graphs: no two of them run at the same time.
                self._pool = self._pool or graph.pool()
                graphs.append(graph)
            own.graphs = graphs
            self._known[size, record] = own
            context.capture_note = (
                f"suffixes of {size} tokens captured in {time.perf_counter() - start:.2f} s"
            )
        return hidden, scores

    def _captured(self, count: int, record: tuple[int, ...]) -> bool:
        possible = self._backbone.on_gpu and (self._scorer.capturable or not record)
        return possible and count <= _LARGEST

    def _set_up(self, size: int, record: tuple[int, ...]) -> _SuffixBuffers:
        backbone, device = self._backbone, self._backbone.device
        one = fused(backbone, 0)
        # Padding is computed along, row by row, and looked at by nobody: it only has to be some number.
        wide = torch.zeros((size, one.heads * one.width), dtype=backbone.dtype, device=device)
        ids = torch.zeros((1, size), dtype=torch.long, device=device)
        hidden = backbone.embed(ids)[0]
        cos, sin = backbone.rotate(hidden[None], torch.arange(size, device=device)[None])
        return _SuffixBuffers(
            ids=ids,
            start=torch.zeros(1, dtype=torch.long, device=device),
            at=torch.zeros(backbone.n_layers, dtype=torch.long, device=device),
            hidden=hidden.clone(),
            cos=cos[0].clone(),
            sin=sin[0].clone(),
            queries=wide.view(size, one.heads, one.width),
            attended=torch.zeros_like(wide),
            record=record,
        )

    def _run(self, own: _SuffixBuffers, index: int) -> None:
        if own.graphs:
            own.graphs[index].replay()
        else:
            self._between(own, index)

    def _between(self, own: _SuffixBuffers, index: int) -> None:
        """What comes before the attention of a layer, and since that of the one before."""
        backbone, buffers = self._backbone, self._buffers
        positions = own.start + torch.arange(own.ids.shape[1], device=own.ids.device)
        if index == 0:
            own.hidden.copy_(backbone.embed(own.ids)[0])
            cos, sin = backbone.rotate(own.hidden[None], positions[None])
            own.cos.copy_(cos[0])
            own.sin.copy_(sin[0])
        else:
            hidden = after(fused(backbone, index - 1), own.hidden, own.attended)
            # The next graph reads the states where they were when it was captured.
            if hidden is not own.hidden:
                own.hidden.copy_(hidden)
        if index == backbone.n_layers:
            return
        rotation = (own.cos, own.sin)
        if index in own.record:
            everyone = torch.ones_like(positions, dtype=torch.bool)
            given = score_input(index, own.hidden, positions, everyone, rotation, backbone)
            own.scores[index] = self._scorer.cacheable_score(given)
        own.queries.copy_(
            before(fused(backbone, index), own.hidden, rotation, buffers.keys, buffers.values, own.at[index])
        )
