"""The contract of a scorer: how much is each token worth keeping? One method a file, a few lines each."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
    columns: Tensor
    """[batch, tokens]: where in the input, padding included, the tokens came from."""
    rotation: Rotation
    backbone: Backbone

    @property
    def last(self) -> Tensor:
        """[batch, 1]: where each text ends."""
        return self.positions.masked_fill(~self.valid, -1).amax(1, keepdim=True)


class Scorer(ABC):
    """Write `score`. A registered scorer is a dataclass: its fields are its options."""

    name: ClassVar[str]
    capturable: ClassVar[bool] = False
    """Whether `score` is made of device work alone, of each token or position for itself: then it can be
    part of a graph that is replayed for other texts."""

    cacheable: ClassVar[bool] = False
    """Whether a token's score can be computed again when text was added after it, from what `cacheable_score`
    gave when it was read. Then caches can be pruned again without reading anything again."""

    @property
    def line_layer(self) -> int | None:
        """The layer whose states tell it what whole lines of text are worth; None if it is for pruning."""
        return None

    def check(self, backbone: Backbone) -> None:  # noqa: B027 - a default, not a gap
        """Refuse a model this scorer was not made for, before any work."""

    def check_layers(self, layers: Sequence[int]) -> None:  # noqa: B027
        """Refuse pruning layers this scorer was not made for, before any work."""

    def prepare(self, backbone: Backbone, ids: Tensor, valid: Tensor) -> None:  # noqa: B027
        """Called before each prefill, for scorers that need a look at the whole input."""

    @abstractmethod
    def score(self, given: ScoreInput) -> Tensor:
        """[batch, tokens]: the higher, the longer a token stays."""

    def cacheable_score(self, given: ScoreInput) -> Tensor:
        """[batch, tokens]: the part of the scores that more text does not change; all of them by default."""
        return self.score(given)

    def rescore(self, layer: int, cached: Tensor, positions: Tensor, last: Tensor) -> Tensor:
        """The scores of tokens at these positions, from `cacheable_score`, now that the text ends at position
        `last`, [batch, 1]."""
        return cached
