"""Static buffers: keys and values of all contexts in one place, so that a captured graph finds them again.

A context is given an allocation; each layer has a part of it that is as long as the layer needs, so pruned
contexts take less. Where a layer's part begins and how much of it is filled are numbers on the device: the
same graph serves every context. On the host they are known, too: asking for them waits for nothing.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from brace.erecap.backbone import Backbone
from brace.erecap.context import Context, too_long
from brace.erecap.schedule import Schedule
from brace.erecap.scorers.base import Scorer
from brace.errors import BraceError, ConfigError

if TYPE_CHECKING:
    from brace.erecap.static.path import StaticPath

_STEP = 256
"""Allocations are multiples of so many tokens: small leftovers would be of no use to anybody."""


@dataclass(frozen=True)
class Allocation:
    """Where one context's layers lie, in tokens of the buffers."""

    start: int
    starts: tuple[int, ...]
    sizes: tuple[int, ...]


class StaticBuffers:
    """Keys and values of all contexts of a model, [tokens, heads, width] each. They grow when they must."""

    def __init__(self, heads: int, width: int, dtype: torch.dtype, device: torch.device) -> None:
        self._shape, self._dtype, self._device = (heads, width), dtype, device
        self.keys, self.values = self.zeros(0)
        self.generation = 0
        """Counts growths: a graph captured before one looks at memory that is gone."""
        self._taken: dict[int, int] = {}
        self._endings: dict[int, weakref.finalize[..., object]] = {}

    @property
    def nbytes(self) -> int:
        """Memory of the whole."""
        return self.keys.nbytes + self.values.nbytes

    @property
    def bytes_each(self) -> int:
        """Memory of one token in one layer."""
        return 2 * self._shape[0] * self._shape[1] * self.keys.element_size()

    def zeros(self, rows: int) -> tuple[Tensor, Tensor]:
        """Keys and values of as many rows elsewhere. Zeros: what is masked in attention must be a number."""
        keys = torch.zeros((rows, *self._shape), dtype=self._dtype, device=self._device)
        return keys, torch.zeros_like(keys)

    def allocate(self, sizes: list[int], owner: object) -> Allocation:
        """Room for these many tokens in each layer; it is free again when its owner is gone."""
        total = -(-sum(sizes) // _STEP) * _STEP
        start = 0
        for taken, end in sorted(self._taken.items()):
            if taken - start >= total:
                break
            start = max(start, end)
        if start + total > len(self.keys):
            self._grow(start + total)
        self._taken[start] = start + total
        self._endings[start] = weakref.finalize(owner, self._taken.pop, start, None)
        return Allocation(start, tuple(accumulate(sizes[:-1], initial=start)), tuple(sizes))

    def free(self, allocation: Allocation) -> None:
        """Before its owner is gone."""
        # A finalizer that is called runs at once, and not again when the owner goes.
        self._endings.pop(allocation.start)()

    def layer(self, allocation: Allocation, index: int) -> tuple[Tensor, Tensor]:
        """A layer's part, [tokens, heads, width] each."""
        part = slice(allocation.starts[index], allocation.starts[index] + allocation.sizes[index])
        return self.keys[part], self.values[part]

    def _grow(self, size: int) -> None:
        # Half as much again, but for the first time: contexts that grow would else move at every call.
        room = max(size, len(self.keys) + len(self.keys) // 2)
        try:
            # One after the other: at no time is there more than one copy too many.
            for name in ("keys", "values"):
                old = getattr(self, name)
                new = torch.zeros((room, *self._shape), dtype=self._dtype, device=self._device)
                new[: len(old)] = old
                setattr(self, name, new)
                del old, new
        except torch.OutOfMemoryError as error:
            free = torch.cuda.mem_get_info(self._device)[0] if self._device.type == "cuda" else 0
            raise BraceError(
                f"no memory for the keys and values of {room:,} tokens, over all layers "
                f"({room * self.bytes_each / 2**30:.1f} GiB); {free // self.bytes_each:,} would fit: "
                "shorten the context, prune more, or end other sessions"
            ) from error
        self.generation += 1


@dataclass
class _Layer:
    """What a prefill left in one layer."""

    count: int
    positions: Tensor
    """[tokens], on the device; layers alike share a tensor."""
    scores: Tensor | None = None
    """[1, tokens], those read since included: what the scorer said of them, to prune again later."""


class StaticContext(Context):
    """What a prefill left of one sequence, and after it, in all layers alike, what was read since."""

    def __init__(self, path: StaticPath, schedule: Schedule, shape: Schedule, room: int) -> None:
        """With room for what a prefill by this schedule, padded to this shape, leaves, and for `room` further
        tokens."""
        self._path, self._schedule = path, schedule
        self._read, self._tail = schedule.tokens, 0
        self._layers: list[_Layer] = []
        # Padding is written over by what follows.
        lengths = zip(schedule.lengths(), shape.lengths(), strict=True)
        sizes = [max(count + room, padded) for count, padded in lengths]
        self.allocation = path.buffers.allocate(sizes, self)

    def filled(self, logits: Tensor, places: list[Tensor], scores: dict[int, Tensor]) -> None:
        """The prefill is on its way: its logits, after each pruning layer which positions stay, and, before
        some layers, what the scorer said of them."""
        self.logits = logits
        now, steps = torch.arange(self._read, device=logits.device), iter(places)
        for index, count in enumerate(self._schedule.lengths()):
            if index in self._schedule.layers:
                now = next(steps)[:count]
            self._layers.append(_Layer(count, now, scores[index][:, :count] if index in scores else None))

    def kept(self) -> list[tuple[Tensor, Tensor]]:
        """As `Prefill` has it: all is real."""
        real = torch.ones((1, self._read), dtype=torch.bool, device=self.logits.device)
        positions: dict[int, Tensor] = {}
        for layer in self._layers:
            positions.setdefault(id(layer.positions), layer.positions[None])
        return [(positions[id(layer.positions)], real[:, : layer.count]) for layer in self._layers]

    @property
    def room(self) -> int:
        """For how many more tokens there is place."""
        sizes = zip(self.allocation.sizes, self._layers, strict=True)
        return min(size - layer.count for size, layer in sizes) - self._tail

    @property
    def end(self) -> int:
        """Where the next token stands."""
        return self._read + self._tail

    @property
    def next_position(self) -> Tensor:
        """[1], on the host: the same."""
        return torch.tensor([self.end])

    def lengths(self) -> list[int]:
        """Tokens held by each layer."""
        return [layer.count + self._tail for layer in self._layers]

    def nbytes(self) -> int:
        """Memory of the keys and values that are held."""
        return sum(self.lengths()) * self._path.buffers.bytes_each

    def layer_positions(self, layer: int) -> Tensor:
        """[1, tokens], on the device: the positions that a layer holds."""
        held = self._layers[layer].positions
        return torch.cat([held, torch.arange(self._read, self.end, device=held.device)])[None]

    def scores(self, layer: int) -> Tensor | None:
        """[1, tokens]: what the scorer said of a layer's tokens when they were read."""
        return self._layers[layer].scores

    def read_on(
        self,
        backbone: Backbone,
        scorer: Scorer,
        ids: Tensor,
        valid: Tensor | None,
        *,
        every: bool,
        remember: bool,
    ) -> Tensor:
        """Read more tokens, [1, tokens]; the new logits."""
        if valid is not None:
            raise ConfigError("a context of the static path is read on without padding")
        if self.end + ids.shape[1] > backbone.max_positions:
            raise too_long(self.end + ids.shape[1], backbone.max_positions)
        return self._path.extend(self, backbone, ids, every=every, remember=remember)

    def grow(self, tokens: int, scores: dict[int, Tensor]) -> None:
        """So many more were read by all layers; `scores` are what the scorer said of them."""
        self._tail += tokens
        for index, new in scores.items():
            before = self._layers[index].scores
            self._layers[index].scores = None if before is None else torch.cat([before, new], 1)

    def make_room(self, tokens: int, spare: int) -> None:
        """Move to a larger allocation if these many do not fit."""
        if tokens <= self.room:
            return
        buffers, old, lengths = self._path.buffers, self.allocation, self.lengths()
        self.allocation = buffers.allocate([count + tokens + spare for count in lengths], self)
        for index, count in enumerate(lengths):
            # Looked up after the allocation, which may have moved the buffers.
            ours, theirs = buffers.layer(self.allocation, index), buffers.layer(old, index)
            for new, before in zip(ours, theirs, strict=True):
                new[:count] = before[:count]
        # Last, so that the new part cannot overlap what is copied from.
        buffers.free(old)

    def retain(self, layer: int, kept: Tensor) -> None:
        """Hold only these of a layer's tokens, given by their index in it, in order."""
        if self._tail:
            # What was read since the prefill counts as part of what it left.
            whole: dict[int, Tensor] = {}
            for index, one in enumerate(self._layers):
                shared = id(one.positions)
                one.count += self._tail
                one.positions = whole.setdefault(shared, self.layer_positions(index)[0])
            self._read, self._tail = self.end, 0
        for part in self._path.buffers.layer(self.allocation, layer):
            # The right side is a copy, so it does no harm that both are the same rows.
            part[: len(kept)] = part[kept]
        held = self._layers[layer]
        scores = None if held.scores is None else held.scores[:, kept]
        self._layers[layer] = _Layer(len(kept), held.positions[kept], scores)

    def crop(self, position: int) -> None:
        """Forget everything from `position` on, in all layers."""
        if position >= self._read:
            self._tail = min(self._tail, position - self._read)
        else:
            cut: dict[int, Tensor] = {}
            for layer in self._layers:
                shared = id(layer.positions)
                if shared not in cut:
                    # Once for all layers that share their positions: each look waits for the device.
                    held = int(np.searchsorted(layer.positions.cpu().numpy(), position))
                    cut[shared] = layer.positions[:held]
                layer.positions, layer.count = cut[shared], len(cut[shared])
            self._read, self._tail = position, 0
        for layer in self._layers:
            layer.scores = None if layer.scores is None else layer.scores[:, : layer.count + self._tail]
