"""How well could a planner do that sees everything, or reads perfectly, or remembers one plan?

They are no language models. Each is bound to the run's world before the first episode.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from brace.context import WordTokenizer
from brace.errors import ConfigError
from brace.plan import Plan
from brace.planners.base import Limits, Planner, Prompt, Vocabulary
from brace.registry import planners


@runtime_checkable
class Referenced(Protocol):
    """A world that comes with its own references."""

    def reset(self, seed: int) -> None:
        """Begin an episode."""
        ...

    def truth_plan(self) -> Plan:
        """The plan of one who sees the world as it is."""
        ...

    def read(self, prompt: str) -> Plan:
        """The plan of one who reads this text perfectly and knows nothing else."""
        ...


class _Reference(Planner):
    tokenizer = WordTokenizer()

    def bind(self, vocabulary: Vocabulary) -> None:
        """Take the world whose plans are to be written; a mere vocabulary is not enough."""
        if not isinstance(vocabulary, Referenced):
            raise ConfigError(
                f"planner {self.name!r} needs a world with truth_plan() and read(); "
                f"{type(vocabulary).__name__} has none"
            )
        self._world: Referenced = vocabulary


@planners.register("truth")
class TruthPlanner(_Reference):
    """Sees the simulator: the ceiling."""

    name = "truth"

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """The best plan now."""
        yield str(self._world.truth_plan())


@planners.register("reader")
class ReaderPlanner(_Reference):
    """Reads the prompt and nothing else, perfectly: what a language model is judged against."""

    name = "reader"

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """The plan that follows from the text."""
        yield str(self._world.read(prompt.text))


@planners.register("memorised")
@dataclass(eq=False)
class MemorisedPlanner(_Reference):
    """Writes the truth's first plan of one other episode, whatever it is asked."""

    name = "memorised"
    seed: int = 1_000_000
    """That episode's."""

    def bind(self, vocabulary: Vocabulary) -> None:
        """Learn the one plan by heart."""
        super().bind(vocabulary)
        self._world.reset(self.seed)
        self._memory = self._world.truth_plan()

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """Always the same plan."""
        yield str(self._memory)
