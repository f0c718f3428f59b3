"""A user's own function as a planner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import InitVar, dataclass

from brace.context import Tokenizer, WordTokenizer
from brace.errors import BraceError
from brace.planners.base import Limits, Planner, Prompt


@dataclass(eq=False)
class FunctionPlanner(Planner):
    """Wraps `prompt text → plan text`, or `prompt text → pieces of it` (which can be cut between them)."""

    function: Callable[[str], str | Iterable[str]]
    """What is asked, once a call."""
    tokenizer: InitVar[Tokenizer | None] = None
    """Budgets are counted in these tokens; by default in the built-in words."""
    name: str = ""
    """For the ledger; by default the function's own."""

    def __post_init__(self, tokenizer: Tokenizer | None) -> None:
        self.name = self.name or getattr(self.function, "__name__", type(self.function).__name__)
        self.tokenizer = tokenizer or WordTokenizer()

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """Whatever the function gives, piece by piece."""
        answer = self.function(prompt.text)
        # Before the test for pieces: a text is an iterable of its letters, too.
        if isinstance(answer, str):
            yield answer
            return
        if not isinstance(answer, Iterable):
            raise BraceError(
                f"planner {self.name!r} returned {type(answer).__name__}; expected text or pieces of text"
            )
        yield from answer
