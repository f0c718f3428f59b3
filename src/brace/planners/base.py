"""The contract of a planner: a prompt in, the plan's text streamed out, stopping when told to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from brace.context import Tokenizer
from brace.plan import SkillSet


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a planner is given."""

    text: str
    tokens: int
    """Its length in the planner's tokens (`tokens_after`)."""
    budget: int | None = None
    """For a planner that prunes in its layers: the most tokens that may be left in the last one. Text that
    was cut already comes without."""
    lines: tuple[LineSpan, ...] = ()
    """Where the context's lines lie in the text."""


@dataclass(frozen=True, slots=True)
class LineSpan:
    """One line of the context within a prompt's text."""

    start: int
    end: int
    floor: bool
    """It may never be cut."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a planner says about its own work, given among the pieces of its text (the last one counts)."""

    tokens_read: int | None = None
    """What went through the first layer in this call."""
    tokens_cached: int = 0
    """Of the prompt, not read again."""
    kept_last: int | None = None
    """What survives the last pruning layer."""
    kept_mean: float | None = None
    """Mean over the layers."""
    note: str = ""
    """Something to be kept with the call: a server that counts differently, say."""


class Limits(Protocol):
    """How long the planner may go on."""

    def expired(self) -> bool:
        """True once nobody waits for the answer any more: stop as soon as possible."""
        ...

    def remaining_s(self) -> float:
        """Seconds until then; infinite without a deadline."""
        ...


class Vocabulary(Protocol):
    """In which words plans are written: those of a world, or of a user's own loop."""

    @property
    def skills(self) -> SkillSet:
        """What a plan may say."""
        ...

    @property
    def names(self) -> Mapping[str, Sequence[str]]:
        """For each argument of kind `name`: all names it can take; any, where it is not mentioned."""
        ...


class Planner(ABC):
    """Writes plans. Only `name`, `tokenizer` and `stream` must be given."""

    needs_extra: ClassVar[str | None] = None
    """What to install: `pip install 'brace-replan[…]'`. Not `extra`, which is an option of endpoints."""
    prunes: ClassVar[bool] = False
    """It honours `Prompt.budget` in its own layers."""
    name: str
    """For the ledger."""
    tokenizer: Tokenizer
    """Budgets are counted in these tokens."""

    @property
    def prompt_overhead(self) -> int:
        """Tokens it puts around every prompt (a chat template); they count against the budget."""
        return 0

    def bind(self, vocabulary: Vocabulary) -> None:  # noqa: B027 - many write whatever they are asked for
        """Shown the run's world, or the words of a user's loop, before the first call."""

    @abstractmethod
    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str | Usage]:
        """Pieces of the plan's text; what came before the deadline is used if it parses.

        Runs in a worker thread and should look at `limits` between pieces.
        """

    def close(self) -> None:  # noqa: B027 - many hold nothing
        """Give back what it holds; no call follows."""
