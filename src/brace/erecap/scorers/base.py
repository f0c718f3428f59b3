"""The contract of a scorer: how much is each token worth keeping? One method a file, a few lines each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from brace.erecap.backbone import Backbone
from brace.erecap.fused import Rotation


@dataclass(frozen=True)
class ScoreInput:
    """What a scorer may look at before a pruning layer."""

    layer: int
    hidden: Tensor
    """[batch, tokens, width]: the hidden states that enter the layer."""
    positions: Tensor
    """[batch, tokens]: positions in the uncut sequence."""
    valid: Tensor
    """[batch, tokens]: False for padding."""
    places: Tensor
    """[batch, tokens]: columns of the input that the tokens came from."""
    rotation: Rotation
    backbone: Backbone

    @property
    def last(self) -> Tensor:
        """[batch, 1]: where each text ends."""
        return self.positions.masked_fill(~self.valid, -1).amax(1, keepdim=True)


class Scorer:
    """Subclass it and write `score`."""

    name: ClassVar[str]
    capturable: ClassVar[bool] = False
    """Whether `score` is made of device work alone, of each token or position for itself: then it can be
    part of a graph that is replayed for other texts."""

    lasts: ClassVar[bool] = False
    """Whether what a token is worth can be told again when text was added after it, from what `lasting` gave
    when it was read. Then caches can be pruned again without reading anything again."""

    @property
    def line_layer(self) -> int | None:
        """The layer whose states tell it what whole lines of text are worth; None if it is for pruning."""
        return None

    def check(self, backbone: Backbone) -> None:
        """Refuse a model this scorer was not made for, before any work."""

    def check_layers(self, layers: Sequence[int]) -> None:
        """Refuse pruning layers this scorer was not made for, before any work."""

    def prepare(self, backbone: Backbone, ids: Tensor, valid: Tensor) -> None:
        """Called before each prefill, for scorers that need a look at the whole input."""

    def score(self, given: ScoreInput) -> Tensor:
        """[batch, tokens]: the higher, the longer a token lives."""
        raise NotImplementedError

    def lasting(self, given: ScoreInput) -> Tensor:
        """[batch, tokens]: what of the scores more text does not change, where they last."""
        return self.score(given)

    def again(self, layer: int, lasting: Tensor, positions: Tensor, last: Tensor) -> Tensor:
        """The scores of tokens at these positions, now that the text ends at position `last`, [batch, 1]."""
        return lasting
