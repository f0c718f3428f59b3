"""One place for all keys and values, so that a captured graph finds them again.

A context takes a block; each layer has a part of it that is as long as the layer needs, so pruned contexts
take less. Where a layer's part begins and how much of it is filled are numbers on the device: the same graph
serves every context.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from brace.errors import BraceError

_STEP = 256
"""Blocks are made up of so many tokens: small leftovers would be of no use to anybody."""


@dataclass(frozen=True)
class Block:
    """Where one context's layers lie, in tokens of the arena."""

    start: int
    starts: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def end(self) -> int:
        """The first token that is not its own."""
        return self.starts[-1] + self.sizes[-1]


class Arena:
    """Keys and values of all contexts of a model, [tokens, heads, width] each. It grows when it must."""

    def __init__(self, heads: int, width: int, dtype: torch.dtype, device: torch.device) -> None:
        self._shape, self._dtype, self._device = (heads, width), dtype, device
        self.keys, self.values = self.like(0)
        self.generation = 0
        """Counts growths: a graph captured before one looks at memory that is gone."""
        self._taken: dict[int, int] = {}
        self._endings: dict[int, weakref.finalize[..., object]] = {}

    def take(self, sizes: list[int], owner: object) -> Block:
        """A block with these many tokens for each layer; it is free again when its owner is gone."""
        total = -(-sum(sizes) // _STEP) * _STEP
        start = self._gap(total)
        if start + total > len(self.keys):
            self._grow(start + total)
        self._taken[start] = start + total
        self._endings[start] = weakref.finalize(owner, self._taken.pop, start, None)
        starts = tuple(accumulate(sizes[:-1], initial=start))
        return Block(start, starts, tuple(sizes))

    def give_back(self, block: Block) -> None:
        """Before its owner is gone."""
        self._endings.pop(block.start)()

    def layer(self, block: Block, index: int) -> tuple[Tensor, Tensor]:
        """A layer's part, [tokens, heads, width] each."""
        part = slice(block.starts[index], block.starts[index] + block.sizes[index])
        return self.keys[part], self.values[part]

    def like(self, rows: int) -> tuple[Tensor, Tensor]:
        """Keys and values of as many rows elsewhere. Zeros: what is masked in attention must be a number."""
        keys = torch.zeros((rows, *self._shape), dtype=self._dtype, device=self._device)
        return keys, torch.zeros_like(keys)

    @property
    def nbytes(self) -> int:
        """Memory of the whole."""
        return self.keys.nbytes + self.values.nbytes

    def _gap(self, size: int) -> int:
        """The first free place of this size."""
        at = 0
        for start, end in sorted(self._taken.items()):
            if start - at >= size:
                return at
            at = max(at, end)
        return at

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
            each = 2 * self._shape[0] * self._shape[1] * self.keys.element_size()
            free = torch.cuda.mem_get_info(self._device)[0] if self._device.type == "cuda" else 0
            raise BraceError(
                f"no memory for the keys and values of {room:,} tokens, over all layers "
                f"({room * each / 2**30:.1f} GiB); {free // each:,} would fit: "
                "shorten the context, prune more, or end other sessions"
            ) from error
        self.generation += 1
