"""The contract of a planner: a prompt in, the plan's text streamed out, stopping when told to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from brace.context import Tokenizer


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a planner is given. Most need the text only; the rest lets a symbolic one model its reading."""

    text: str
    tokens: int
    """Its length in the planner's tokens (`tokens_after`)."""
    tokens_in: int
    """What it would have been uncut."""
    mode: str
    compressor: str
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


@runtime_checkable
class Planner(Protocol):
    """Writes plans. `stream` runs in a worker thread and should look at `limits` between pieces.

    A planner with `prunes = True` honours `Prompt.budget` in its own layers. One with `bind(world)` is shown
    the run's world (its `skills` and `names`) before the first call. One with `prompt_overhead` puts so many
    tokens around every prompt (a chat template), and they count against the budget.
    """

    @property
    def name(self) -> str:
        """For the ledger."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """Budgets are counted in these tokens."""
        ...

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str | Usage]:
        """Pieces of the plan's text. What came before the deadline is used if it parses."""
        ...
