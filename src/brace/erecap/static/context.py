"""What one sequence has left in the arena. Its numbers are on the host: asking for them waits for nothing."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from brace.erecap.eviction import Worth, with_note
from brace.erecap.schedule import Schedule
from brace.erecap.static.arena import Arena, Block


@dataclass(frozen=True)
class Held:
    """How much is cached."""

    counts: tuple[int, ...]
    bytes_each: int

    def lengths(self) -> list[int]:
        """Tokens held by each layer."""
        return list(self.counts)

    def nbytes(self) -> int:
        """Memory of what is filled."""
        return sum(self.counts) * self.bytes_each


class StaticContext:
    """Survivors of a prefill, and after them, in all layers alike, what was read since."""

    def __init__(self, arena: Arena, schedule: Schedule, shape: Schedule, room: int) -> None:
        """A place for what a prefill by this schedule, padded to this shape, leaves, and for `room` further
        tokens."""
        self.arena, self._schedule = arena, schedule
        self._base = schedule.lengths()
        self._read, self._tail = schedule.tokens, 0
        self._survivors: list[Tensor] = []
        self.logits = torch.empty(0)
        self.told = ""
        """What the last reading took beside reading, for the record."""
        self.worth: Worth | None = None
        """Per pruning layer, [1, tokens]: what the scorer noted of its tokens, to prune again later."""
        # Padding is written over by what follows.
        sizes = [max(count + room, padded) for count, padded in zip(self._base, shape.lengths(), strict=True)]
        self.block: Block = arena.take(sizes, self)

    def filled(self, logits: Tensor, places: list[Tensor], noted: Worth) -> None:
        """The prefill is on its way: its logits and, after each pruning layer, which places live on, and what
        was noted of them."""
        self.logits = logits
        now, steps = torch.arange(self._read, device=logits.device), iter(places)
        for index, length in enumerate(self._base):
            if index in self._schedule.layers:
                now = next(steps)[:length]
            self._survivors.append(now)
        if noted:
            self.worth = {layer: worth[:, : self._base[layer]] for layer, worth in noted.items()}

    @property
    def survivors(self) -> list[Tensor]:
        """Each layer's positions after the prefill, on the device; layers alike share a tensor."""
        return list(self._survivors)

    @property
    def lengths(self) -> list[int]:
        """Tokens held by each layer."""
        return [base + self._tail for base in self._base]

    @property
    def room(self) -> int:
        """For how many more tokens there is place."""
        free = (size - base for size, base in zip(self.block.sizes, self._base, strict=True))
        return min(free) - self._tail

    @property
    def end(self) -> int:
        """Where the next token stands."""
        return self._read + self._tail

    @property
    def next_position(self) -> Tensor:
        """[1], on the host: the same."""
        return torch.tensor([self.end])

    def living_before(self, position: int) -> list[int]:
        """Positions below this one that the last layer holds. Waits for the device."""
        held: list[int] = self._survivors[-1].tolist()
        held += range(self._read, self.end)
        return held[: bisect_left(held, position)]

    @property
    def positions(self) -> list[Tensor]:
        """Per layer, [1, tokens]. Waits for the device."""
        tail = torch.arange(self._read, self._read + self._tail)
        return [torch.cat([positions.cpu(), tail])[None] for positions in self._survivors]

    @property
    def cache(self) -> Held:
        """How much is cached."""
        heads, width = self.arena.keys.shape[1:]
        return Held(tuple(self.lengths), 2 * heads * width * self.arena.keys.element_size())

    def places(self, layer: int) -> Tensor:
        """[tokens], on the device: the positions that a layer holds."""
        held = self._survivors[layer]
        return torch.cat([held, torch.arange(self._read, self.end, device=held.device)])

    def retain(self, layer: int, kept: Tensor) -> None:
        """Hold only these of a layer's tokens, given by their number in it, in order."""
        self._settle()
        for part in self.arena.layer(self.block, layer):
            part[: len(kept)] = part[kept]
        self._survivors[layer] = self._survivors[layer][kept]
        self._base[layer] = len(kept)
        if self.worth is not None and layer in self.worth:
            self.worth[layer] = self.worth[layer][:, kept]

    def note(self, layer: int, noted: Tensor) -> None:
        """What the scorer says of tokens that are being read."""
        self.worth = with_note(self.worth, layer, noted, self.lengths[layer])

    def grown(self, tokens: int) -> None:
        """So many more were read by all layers."""
        self._tail += tokens

    def make_room(self, tokens: int, spare: int) -> None:
        """Move to a larger block if these many do not fit."""
        if tokens <= self.room:
            return
        old, lengths = self.block, self.lengths
        self.block = self.arena.take([count + tokens + spare for count in lengths], self)
        for index, count in enumerate(lengths):
            ours, theirs = self.arena.layer(self.block, index), self.arena.layer(old, index)
            for new, before in zip(ours, theirs, strict=True):
                new[:count] = before[:count]
        self.arena.give_back(old)

    def crop(self, position: int) -> None:
        """Forget everything from `position` on, in all layers."""
        if position >= self._read:
            self._tail = min(self._tail, position - self._read)
        else:
            cut: dict[int, Tensor] = {}
            for index, positions in enumerate(self._survivors):
                if id(positions) not in cut:
                    held = int(np.searchsorted(positions.cpu().numpy(), position))
                    cut[id(positions)] = positions[:held]
                self._survivors[index] = cut[id(positions)]
            self._base = [len(positions) for positions in self._survivors]
            self._read, self._tail = position, 0
        self._trim_notes()

    def undo(self) -> None:
        """After a reading that broke off: what was read is counted at its end, but notes are taken before."""
        self._trim_notes()

    def _trim_notes(self) -> None:
        """To what is held."""
        if self.worth is not None:
            lengths = self.lengths
            self.worth = {layer: noted[:, : lengths[layer]] for layer, noted in self.worth.items()}

    def _settle(self) -> None:
        """Count what was read since the prefill as part of what it left."""
        if not self._tail:
            return
        same: dict[int, Tensor] = {}
        for index, positions in enumerate(self._survivors):
            self._survivors[index] = same.setdefault(id(positions), self.places(index))
        self._base, self._read, self._tail = self.lengths, self.end, 0
