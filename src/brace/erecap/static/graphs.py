"""Captured readings: for each form, a graph that reads every text that fits it.

Keys and values are written to a stage that stays in place and go from there to a context's own block, so that
a graph outlives all contexts. On a CPU the same steps run, uncaptured.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from brace.erecap.backbone import Backbone
from brace.erecap.fused import go_on
from brace.erecap.schedule import Schedule
from brace.erecap.scorers.base import Scorer
from brace.erecap.static.arena import Arena, Block
from brace.erecap.static.buckets import LARGEST
from brace.erecap.static.reading import Form, Mark, Read, Rows, counts_of, read


@dataclass
class _Graph:
    """One shape's inputs, outputs and the graph between them (None on a CPU)."""

    ids: Tensor
    floor: Tensor | None
    counts: Tensor
    rows: Rows
    parts: list[Tensor]
    """Each layer's rows: keys, then values."""
    made: Read | None = None
    graph: Any = None


class Graphs:
    """All shapes that were met so far."""

    def __init__(self, backbone: Backbone, scorer: Scorer, arena: Arena) -> None:
        self._backbone, self._scorer, self._arena = backbone, scorer, arena
        self._graphs: dict[Form, _Graph] = {}
        self._stage: tuple[Tensor, Tensor] | None = None
        self._pool: Any = None

    def ready(self, form: Form) -> float:
        """Capture this form unless that was done; the seconds it took."""
        if form in self._graphs:
            return 0.0
        start, one = time.perf_counter(), self._prepared(form)
        on_gpu = self._backbone.device.type == "cuda"
        if on_gpu:
            self._capture(one, form)
        self._graphs[form] = one
        return time.perf_counter() - start if on_gpu else 0.0

    def read(self, ids: Tensor, floor: Tensor | None, schedule: Schedule, form: Form, block: Block) -> Read:
        """Read `ids`, [tokens], in a form that is ready; keys and values go to the block."""
        one = self._graphs[form]
        tokens = len(ids)
        one.ids[:tokens] = ids
        if one.floor is not None and floor is not None:
            one.floor[:tokens] = floor
            one.floor[tokens:] = False
        one.counts.copy_(torch.tensor(counts_of(schedule)))
        made = self._run(one, form)
        self._move(one, form.shape, block)
        # The graph's own tensors are overwritten by the next reading.
        places, noted = ([one.clone() for one in some] for some in (made.places, made.noted))
        return Read(made.logits.clone(), places, made.finite.clone(), noted)

    def drop(self, form: Form) -> None:
        """Forget a form that will not be read again."""
        del self._graphs[form]

    def timed(self, form: Form) -> float:
        """Milliseconds of the graph itself, for whatever was read last in this form: the least of a few."""
        one = self._graphs[form]
        times = []
        for _ in range(4):
            before, after = (Mark(enable_timing=True) for _ in range(2))
            before.record()
            one.graph.replay()
            after.record()
            after.synchronize()
            times.append(before.elapsed_time(after))
        return float(min(times))

    def _run(self, one: _Graph, form: Form) -> Read:
        if one.made is None:
            return read(self._backbone, self._scorer, one.ids, one.floor, form, one.counts, one.rows)
        one.graph.replay()
        return one.made

    def _move(self, one: _Graph, shape: Schedule, block: Block) -> None:
        """From the stage to where the context lies, all layers at once."""
        to: list[Tensor] = []
        for target in (self._arena.keys, self._arena.values):
            parts = zip(block.starts, shape.lengths(), strict=True)
            to += [target[start : start + length] for start, length in parts]
        torch._foreach_copy_(to, one.parts)

    def _prepared(self, form: Form) -> _Graph:
        shape = form.shape
        device, lengths = self._backbone.device, shape.lengths()
        keys, values = self._staged(sum(lengths))
        starts = tuple(accumulate(lengths[:-1], initial=0))
        rows = Rows(keys, values, starts, torch.tensor(starts, device=device))
        parts = [part for whole in (keys, values) for part in torch.split(whole[: sum(lengths)], lengths)]
        ids = torch.zeros(shape.tokens, dtype=torch.long, device=device)
        # Of a text that fills the shape, until a real one comes.
        counts = torch.tensor(counts_of(shape), device=device)
        floor = torch.zeros_like(ids, dtype=torch.bool) if form.floors else None
        return _Graph(ids, floor, counts, rows, parts)

    def _staged(self, rows: int) -> tuple[Tensor, Tensor]:
        """The stage, if it has so many rows, else a larger one: older graphs go on with the old."""
        if self._stage is None or len(self._stage[0]) < rows:
            doubled = 2 * len(self._stage[0]) if self._stage else 0
            self._stage = self._arena.like(max(rows, min(doubled, LARGEST * self._backbone.n_layers)))
        return self._stage

    def _capture(self, one: _Graph, form: Form) -> None:
        check, self._backbone.check = self._backbone.check, go_on
        try:
            side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                # Kernels are chosen, compiled and planned here; none of that may happen in a capture.
                self._run(one, form)
            torch.cuda.current_stream().wait_stream(side)
            graph: Any = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool):
                made = self._run(one, form)
            one.made, one.graph = made, graph
            self._pool = self._pool or graph.pool()
        finally:
            self._backbone.check = check
