"""A user's own function as a planner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from brace.context import Tokenizer, WordTokenizer
from brace.errors import BraceError
from brace.planners.base import Limits, Planner, Prompt


class FunctionPlanner(Planner):
    """Wraps `prompt text → plan text`, or `prompt text → pieces of it` (which can be cut between them)."""

    def __init__(
        self,
        function: Callable[[str], str | Iterable[str]],
        tokenizer: Tokenizer | None = None,
        name: str = "",
    ) -> None:
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self.tokenizer: Tokenizer = tokenizer or WordTokenizer()
        self._function = function

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """Whatever the function gives, piece by piece."""
        answer = self._function(prompt.text)
        if isinstance(answer, str):
            yield answer
            return
        if not isinstance(answer, Iterable):
            raise BraceError(
                f"planner {self.name!r} returned {type(answer).__name__}; expected text or pieces of text"
            )
        yield from answer
