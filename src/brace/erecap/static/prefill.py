"""A pruned prefill of one sequence, of which the host knows all lengths and the device all choices.

Lengths are planned before it begins, so nobody waits for the device to tell what it has kept. The tensors may
be longer than what is read (a bucket's shape): what follows the text is padding, which no real token sees,
and how much of each layer is real is a number on the device. So one captured graph reads every text that fits
its shape; a text of exactly that shape is the case without padding. On a CPU the same steps run uncaptured.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar

import torch
from torch import Tensor

from brace.erecap.backbone import Backbone
from brace.erecap.fused import Rotation, no_check
from brace.erecap.schedule import HEAD, Schedule, tail_of
from brace.erecap.scorers.base import ScoreInput, Scorer
from brace.erecap.static.buckets import LARGEST
from brace.erecap.static.context import Allocation, StaticBuffers
from brace.erecap.static.layer import causal, fused, run

T = TypeVar("T")
Event: Any = torch.cuda.Event
"""A point in the device's work that can be timed."""


@dataclass(frozen=True)
class GraphKey:
    """What a graph is captured for; prefills with the same key differ in their texts only."""

    shape: Schedule
    floors: bool = False
    """Whether some tokens are protected."""
    record: tuple[int, ...] = ()
    """Layers before which the scorer's cacheable scores are kept, besides those that prune."""


@dataclass(frozen=True)
class Target:
    """Where keys and values go: [rows, heads, width], and each layer's first row."""

    keys: Tensor
    values: Tensor
    starts: tuple[int, ...]
    at: Tensor
    """The same, on the device."""


@dataclass(frozen=True)
class Outputs:
    """What a prefill gives beside keys and values."""

    logits: Tensor
    """[1, vocabulary], after the last token."""
    places: list[Tensor]
    """After each pruning layer: which tokens of the input stay, in order, then padding."""
    finite: Tensor
    """Whether all scores of real tokens were."""
    scores: list[Tensor]
    """After each layer that prunes or records: the cacheable scores of those that stay, if the scorer has
    them."""


def counts_of(schedule: Schedule) -> list[list[int]]:
    """What the device must know of a text: before each pruning layer its length, its tail and how many stay;
    and one more row with the length at the end."""
    before, rows = schedule.tokens, []
    for kept in schedule.kept:
        rows.append([before, tail_of(before), kept])
        before = kept
    return [*rows, [before, 0, before]]


def read(
    backbone: Backbone,
    scorer: Scorer,
    ids: Tensor,
    floor: Tensor | None,
    key: GraphKey,
    counts: Tensor,
    target: Target,
    events: list[Any] | None = None,
) -> Outputs:
    """Read `ids`, [tokens of the shape]; `counts` are those of the text itself, on the device.

    A shape of fewer layers than the model has is read to its own end, to be timed. `events` are recorded at
    the beginning, before the first pruning layer, and at the end.
    """
    shape = key.shape
    if events is not None:
        events[0].record()
    hidden = backbone.embed(ids[None])[0]
    places = torch.arange(len(ids), device=ids.device)
    cos, sin = backbone.rotate(hidden[None], places[None])
    rotation = (cos[0], sin[0])
    finite = torch.ones((), dtype=torch.bool, device=ids.device)
    left: list[Tensor] = []
    recorded: list[Tensor] = []
    for index in range(shape.n_layers):
        backbone.check()
        if index in key.record:
            everyone = torch.ones_like(places, dtype=torch.bool)
            given = score_input(index, hidden, places, everyone, rotation, backbone)
            recorded.append(scorer.cacheable_score(given))
        if index in shape.layers:
            step = len(left)
            if events is not None and step == 0:
                events[1].record()
            valid = torch.arange(len(hidden), device=ids.device) < counts[step, 0]
            given = score_input(index, hidden, places, valid, rotation, backbone)
            if scorer.cacheable:
                recorded.append(scorer.cacheable_score(given))
                scores = scorer.rescore(index, recorded[-1], given.positions, given.last)[0].float()
            else:
                scores = scorer.score(given)[0].float()
            # Stays on the device: to look at it now would wait for all that was launched.
            finite = finite & (torch.isfinite(scores) | ~valid).all()
            chosen = _best(scores, floor, valid, counts[step], shape.kept[step])
            hidden, places = hidden[chosen], places[chosen]
            if scorer.cacheable:
                recorded[-1] = recorded[-1][:, chosen]
            rotation = (rotation[0][chosen], rotation[1][chosen])
            floor = None if floor is None else floor[chosen]
            left.append(places)
        layer, start = fused(backbone, index), target.starts[index]
        part = slice(start, start + len(hidden))
        keys, values = target.keys[part], target.values[part]

        def attend(
            queries: Tensor, keys: Tensor = keys, values: Tensor = values, scale: float = layer.scale
        ) -> Tensor:
            return causal(queries, keys, values, scale)

        hidden = run(layer, hidden, rotation, target.keys, target.values, target.at[index], attend)
    # By a number on the device, for a graph must not fix where the text ends.
    last = hidden.index_select(0, counts[-1, :1] - 1)
    logits = backbone.logits(last) if shape.n_layers == backbone.n_layers else last
    if events is not None:
        events[2].record()
    return Outputs(logits, left, finite, recorded)


def _best(scores: Tensor, floor: Tensor | None, valid: Tensor, counts: Tensor, room: int) -> Tensor:
    """The places that stay, in order: head, tail, floors, then the best, of equals the earlier; then some
    others up to `room`, as padding."""
    count, tail, kept = counts
    place = torch.arange(len(scores), device=scores.device)
    stay = (place < HEAD) | (place >= count - tail)
    if floor is not None:
        stay = stay | floor
    ranked = scores.masked_fill(stay, torch.inf).masked_fill(~valid, -torch.inf)
    best = ranked.argsort(descending=True, stable=True)[:room]
    # Padding is moved behind all that is real, and its places back into range.
    behind = (place[:room] >= kept) * len(scores)
    chosen: Tensor = (best + behind).sort().values % len(scores)
    return chosen


def score_input(
    layer: int, hidden: Tensor, places: Tensor, valid: Tensor, rotation: Rotation, backbone: Backbone
) -> ScoreInput:
    """What a scorer is shown of one sequence without a batch's dimension."""
    turned = (rotation[0][None], rotation[1][None])
    return ScoreInput(layer, hidden[None], places[None], valid[None], places[None], turned, backbone)


def warm_up(work: Callable[[], object]) -> None:
    """Do the work once beside the main stream: kernels are chosen, compiled and planned in it, none of which
    may happen in a capture."""
    side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)


def capture(work: Callable[[], T], pool: Any = None) -> tuple[Any, T]:
    """The graph of this work, and the tensors it will write to when it is replayed."""
    graph: Any = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        made = work()
    return graph, made


@dataclass
class _Captured:
    """The inputs and outputs of one key's prefills, and the graph between them (None on a CPU)."""

    ids: Tensor
    floor: Tensor | None
    counts: Tensor
    work: Callable[[], Outputs]
    """From the inputs to the outputs, uncaptured."""
    parts: list[Tensor]
    """Each layer's rows in the staging buffers: keys, then values."""
    outputs: Outputs | None = None
    graph: Any = None


class PrefillGraphs:
    """A graph for each key that was met so far.

    Keys and values are written to staging buffers that stay in place and go from there to a context's own
    allocation, so that a graph outlives all contexts.
    """

    def __init__(self, backbone: Backbone, scorer: Scorer, buffers: StaticBuffers) -> None:
        self._backbone, self._scorer, self._buffers = backbone, scorer, buffers
        self._captured: dict[GraphKey, _Captured] = {}
        self._staging: tuple[Tensor, Tensor] | None = None
        self._pool: Any = None

    def ready(self, key: GraphKey) -> float:
        """Capture this key's graph unless that was done; the seconds it took."""
        if key in self._captured:
            return 0.0
        start, one = time.perf_counter(), self._prepared(key)
        if self._backbone.on_gpu:
            # A deadline may not break off a capture.
            check, self._backbone.check = self._backbone.check, no_check
            try:
                warm_up(one.work)
                one.graph, one.outputs = capture(one.work, self._pool)
                self._pool = self._pool or one.graph.pool()
            finally:
                self._backbone.check = check
        self._captured[key] = one
        return time.perf_counter() - start if self._backbone.on_gpu else 0.0

    def read(
        self, ids: Tensor, floor: Tensor | None, schedule: Schedule, key: GraphKey, allocation: Allocation
    ) -> Outputs:
        """Read `ids`, [tokens], by a key that is ready; keys and values go to the allocation."""
        one = self._captured[key]
        tokens = len(ids)
        # What is left of a longer text before it is padding, which no real token sees.
        one.ids[:tokens] = ids
        if one.floor is not None and floor is not None:
            one.floor[:tokens] = floor
            one.floor[tokens:] = False
        one.counts.copy_(torch.tensor(counts_of(schedule)))
        if one.outputs is None:
            made = one.work()
        else:
            one.graph.replay()
            made = one.outputs
        to: list[Tensor] = []
        for buffer in (self._buffers.keys, self._buffers.values):
            parts = zip(allocation.starts, key.shape.lengths(), strict=True)
            to += [buffer[start : start + length] for start, length in parts]
        # In one call, where a copy for each layer would be as many launches.
        torch._foreach_copy_(to, one.parts)
        # The graph's own tensors are overwritten by the next reading.
        places, scores = ([part.clone() for part in some] for some in (made.places, made.scores))
        return Outputs(made.logits.clone(), places, made.finite.clone(), scores)

    def drop(self, key: GraphKey) -> None:
        """Forget a graph that will not be replayed again."""
        del self._captured[key]

    def timed(self, key: GraphKey) -> float:
        """Milliseconds of the graph itself, for whatever was read last by this key: the least of a few."""
        one = self._captured[key]
        times = []
        for _ in range(4):
            before, after = (Event(enable_timing=True) for _ in range(2))
            before.record()
            one.graph.replay()
            after.record()
            after.synchronize()
            times.append(before.elapsed_time(after))
        return float(min(times))

    def _prepared(self, key: GraphKey) -> _Captured:
        shape = key.shape
        device, lengths = self._backbone.device, shape.lengths()
        rows = sum(lengths)
        if self._staging is None or len(self._staging[0]) < rows:
            # Larger ones: older graphs go on with the old.
            # Doubled, so that texts which grow do not bring new buffers each time.
            doubled = 2 * len(self._staging[0]) if self._staging else 0
            self._staging = self._buffers.zeros(max(rows, min(doubled, LARGEST * self._backbone.n_layers)))
        keys, values = self._staging
        starts = tuple(accumulate(lengths[:-1], initial=0))
        target = Target(keys, values, starts, torch.tensor(starts, device=device))
        parts = [part for whole in (keys, values) for part in torch.split(whole[:rows], lengths)]
        ids = torch.zeros(shape.tokens, dtype=torch.long, device=device)
        # Of a text that fills the shape, until a real one comes.
        counts = torch.tensor(counts_of(shape), device=device)
        floor = torch.zeros_like(ids, dtype=torch.bool) if key.floors else None
        work = partial(read, self._backbone, self._scorer, ids, floor, key, counts, target)
        return _Captured(ids, floor, counts, work, parts)
