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
    """Writes plans. `stream` runs in a worker thread and should look at `limits` between pieces."""

    @property
    def name(self) -> str:
        """For the ledger."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """Budgets are counted in these tokens."""
        ...

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """Pieces of the plan's text. What came before the deadline is used if it parses."""
        ...
