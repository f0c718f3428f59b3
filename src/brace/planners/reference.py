"""How well could a planner do that sees everything, or reads perfectly, or remembers one plan?

They are no language models. Each is bound to the run's world before the first episode.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from brace.context import Tokenizer, WordTokenizer
from brace.errors import ConfigError
from brace.plan import Plan
from brace.planners.base import Limits, Prompt
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


class _Reference:
    name = ""

    def __init__(self) -> None:
        self.tokenizer: Tokenizer = WordTokenizer()

    def bind(self, world: object) -> None:
        """Take the world whose plans are to be written."""
        if not isinstance(world, Referenced):
            kind = getattr(world, "id", type(world).__name__)
            raise ConfigError(
                f"planner {self.name!r} needs a world with truth_plan() and read(); {kind!r} has none"
            )
        self._world = world

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """The whole plan in one piece."""
        yield str(self._plan(prompt.text))

    def _plan(self, prompt: str) -> Plan:
        raise NotImplementedError


@planners.register("truth")
class TruthPlanner(_Reference):
    """Sees the simulator: the ceiling."""

    name = "truth"

    def _plan(self, prompt: str) -> Plan:
        return self._world.truth_plan()


@planners.register("reader")
class ReaderPlanner(_Reference):
    """Reads the prompt and nothing else, perfectly: what a language model is judged against."""

    name = "reader"

    def _plan(self, prompt: str) -> Plan:
        return self._world.read(prompt)


@planners.register("memorised")
class MemorisedPlanner(_Reference):
    """Writes the truth's first plan of one other episode, whatever it is asked."""

    name = "memorised"

    def __init__(self, seed: int = 1_000_000) -> None:
        super().__init__()
        self._seed = seed

    def bind(self, world: object) -> None:
        """Learn the one plan by heart."""
        super().bind(world)
        self._world.reset(self._seed)
        self._memory = self._world.truth_plan()

    def _plan(self, prompt: str) -> Plan:
        return self._memory
