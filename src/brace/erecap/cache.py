"""Keys and values with a length of its own in every layer, and what they belong to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from brace.erecap.eviction import Worth, with_note

_SPARE = 64
"""Room for this many further tokens is made at a time, so that decoding does not copy the cache each step."""


@dataclass
class LayerCache:
    """One layer's keys and values in a buffer that is larger than what is filled."""

    keys: Tensor
    values: Tensor
    length: int

    @classmethod
    def of(cls, keys: Tensor, values: Tensor) -> LayerCache:
        """Takes over what the layer has just computed; room is made when more comes."""
        return cls(keys, values, keys.shape[2])

    def append(self, keys: Tensor, values: Tensor) -> None:
        """Add tokens at the end."""
        end = self.length + keys.shape[2]
        if end > self.keys.shape[2]:
            self._reserve(end + _SPARE)
        self.keys[:, :, self.length : end] = keys
        self.values[:, :, self.length : end] = values
        self.length = end

    def retain(self, kept: Tensor) -> None:
        """Hold only these, given by their number, in order."""
        self.keys, self.values = self.keys[:, :, kept], self.values[:, :, kept]
        self.length = len(kept)

    def view(self) -> tuple[Tensor, Tensor]:
        """What is filled."""
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def _reserve(self, size: int) -> None:
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = old.new_empty((*old.shape[:2], size, old.shape[3]))
            new[:, :, : self.length] = old[:, :, : self.length]
            setattr(self, name, new)


@dataclass
class KvCache:
    """All layers. transformers' attention calls `update`; the rest is ours."""

    layers: list[LayerCache] = field(default_factory=list)

    def update(
        self, keys: Tensor, values: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Append to a layer and give back all it holds."""
        if layer_idx == len(self.layers):
            self.layers.append(LayerCache.of(keys, values))
        else:
            self.layers[layer_idx].append(keys, values)
        return self.layers[layer_idx].view()

    def lengths(self) -> list[int]:
        """Tokens held by each layer."""
        return [layer.length for layer in self.layers]

    def nbytes(self) -> int:
        """Memory of what is filled."""
        return sum(
            2 * keys.numel() * keys.element_size() for keys, _ in (layer.view() for layer in self.layers)
        )


@dataclass
class Context:
    """What the model has read: per layer the cached tokens' positions, and which of them are real.

    Positions are those of the uncut sequence: a survivor keeps its own.
    """

    cache: KvCache
    positions: list[Tensor]
    """Per layer, [batch, tokens]."""
    valid: list[Tensor]
    """Per layer, [batch, tokens]: False for padding."""
    next_position: Tensor
    """[batch]: where the next token stands."""
    logits: Tensor
    """[batch, vocabulary]: of the token after the last one read."""
    worth: Worth | None = None
    """Per pruning layer, [batch, tokens]: what the scorer noted of its tokens, to prune again later."""
    told: str = ""
    """What the last reading took beside reading, for the record: here nothing ever."""

    def places(self, layer: int) -> Tensor:
        """The positions that a layer holds (one sequence only: batch 1)."""
        return self.positions[layer][0]

    def retain(self, layer: int, kept: Tensor) -> None:
        """Hold only these of a layer's tokens, given by their number in it, in order (batch 1)."""
        self.cache.layers[layer].retain(kept)
        self.positions[layer], self.valid[layer] = self.positions[layer][:, kept], self.valid[layer][:, kept]
        if self.worth is not None and layer in self.worth:
            self.worth[layer] = self.worth[layer][:, kept]

    def note(self, layer: int, noted: Tensor) -> None:
        """What the scorer says of tokens that are being read."""
        self.worth = with_note(self.worth, layer, noted, self.positions[layer].shape[1])

    def append(self, layer: int, positions: Tensor, valid: Tensor) -> None:
        """Note tokens that were added to a layer."""
        self.positions[layer] = torch.cat([self.positions[layer], positions], 1)
        self.valid[layer] = torch.cat([self.valid[layer], valid], 1)

    def living_before(self, position: int) -> list[int]:
        """Positions below this one that the last layer holds (one sequence only: batch 1)."""
        held = self.positions[-1][0]
        living: list[int] = held[held < position].tolist()
        return living

    def crop(self, position: int) -> None:
        """Forget everything from `position` on, in all layers (one sequence only: batch 1)."""
        for index, layer in enumerate(self.cache.layers):
            # Positions ascend, so that what stays is the beginning.
            held = int(torch.searchsorted(self.positions[index][0], position))
            self.positions[index] = self.positions[index][:, :held]
            self.valid[index] = self.valid[index][:, :held]
            layer.length = held
            if self.worth is not None and index in self.worth:
                self.worth[index] = self.worth[index][:, :held]
        self.next_position = self.next_position.clamp(max=position)

    def undo(self) -> None:
        """After a reading that broke off: forget the tokens that only some of the layers have seen."""
        self.crop(int(self.next_position[0]))
