"""The contract of a context: what a model has read, and what each of its layers still holds of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from dataclasses import dataclass

import torch
from torch import Tensor

from brace.erecap.backbone import Backbone
from brace.erecap.schedule import Schedule
from brace.erecap.scorers.base import Scorer
from brace.errors import ConfigError


class Context(ABC):
    """Keys and values of the tokens that were read, with a length of its own in every layer.

    Positions are those of the uncut sequence: a survivor keeps its own. What is said to be for one sequence
    needs a batch of one row.
    """

    logits: Tensor
    """[batch, vocabulary]: of the token after the last one read."""
    capture_note: str = ""
    """What the last reading had to capture before it could be read, for the record."""

    @property
    @abstractmethod
    def next_position(self) -> Tensor:
        """[batch]: where the next token stands."""

    @abstractmethod
    def lengths(self) -> list[int]:
        """Tokens held by each layer."""

    @abstractmethod
    def nbytes(self) -> int:
        """Memory of the keys and values that are held."""

    @abstractmethod
    def layer_positions(self, layer: int) -> Tensor:
        """[batch, tokens]: the positions that a layer holds."""

    @abstractmethod
    def scores(self, layer: int) -> Tensor | None:
        """[batch, tokens]: what the scorer said of a layer's tokens when they were read; None if not asked.

        Shorter than the layer where later tokens were read without asking.
        """

    @abstractmethod
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
        """Read more tokens, [batch, tokens]; the new logits, as `Engine.extend` says.

        `valid` is False for padding; None if there is none.
        """

    @abstractmethod
    def retain(self, layer: int, kept: Tensor) -> None:
        """Hold only these of a layer's tokens, given by their index in it, in order (one sequence)."""

    @abstractmethod
    def crop(self, position: int) -> None:
        """Forget everything from `position` on, in all layers (one sequence)."""

    def undo(self) -> None:  # noqa: B027 - a default, not a gap
        """After a reading that broke off: forget what it left. By default a reading leaves nothing before its
        end."""

    @property
    def positions(self) -> list[Tensor]:
        """The positions that each layer holds, [batch, tokens] each."""
        return [self.layer_positions(layer) for layer in range(len(self.lengths()))]

    def held_before(self, position: int) -> list[int]:
        """The positions below this one that the last layer holds (one sequence). Waits for the device."""
        held: list[int] = self.layer_positions(-1)[0].tolist()
        # Positions ascend in every layer.
        return held[: bisect_left(held, position)]

    def complete_scores(self) -> dict[int, Tensor]:
        """`scores` of the layers where every token that is held was scored when it was read."""
        found = {layer: (length, self.scores(layer)) for layer, length in enumerate(self.lengths())}
        return {
            layer: scores
            for layer, (length, scores) in found.items()
            if scores is not None and scores.shape[1] == length
        }


@dataclass(frozen=True)
class Prefill:
    """What a prefill left."""

    context: Context
    schedules: list[Schedule]
    """One a row: what was done, which is less than what was asked for where pruning would not have paid. By
    segments a layer may hold fewer."""
    kept: list[tuple[Tensor, Tensor]]
    """Per layer, which columns of the input it computed, and whether each is real; [batch, tokens] both."""
    ranked: Tensor | None = None
    """`worth`, on the eager path."""
    path_note: str = "eager"
    """Which path it took, for the record."""

    @property
    def survivors(self) -> list[Tensor]:
        """Per layer, [batch, tokens read]: which tokens of the input that layer computed."""
        whole = self.kept[0][1]
        masks: dict[int, Tensor] = {}
        for columns, real in self.kept:
            # Layers between two pruning layers share a tensor.
            if id(columns) not in masks:
                masks[id(columns)] = torch.zeros_like(whole).scatter(1, columns, real)
        return [masks[id(columns)] for columns, _ in self.kept]

    @property
    def worth(self) -> Tensor:
        """[batch, tokens read]: pruning layers lived through, and as its fraction the rank in the last one
        that scored it. Padding and, without pruning, everything is 0."""
        if self.ranked is None:
            raise ConfigError(
                "the static path does not rank what it drops; make the engine with path='eager'"
            )
        return self.ranked


def too_long(tokens: int, positions: int) -> ConfigError:
    """The error for a context that the model has no positions for."""
    return ConfigError(
        f"a context of {tokens} tokens does not fit the model's {positions} positions; shorten it first"
    )
