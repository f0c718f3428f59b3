"""The contract of a retriever: memories that belong to what is going on, within a few tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from brace.context import Line


class Retriever(Protocol):
    """Finds what was learned before. What it gives is added to the prompt inside the budget."""

    name: ClassVar[str]
    reserve: int
    """Tokens of the budget that compression leaves to it."""

    def retrieve(self, lines: Sequence[Line]) -> list[str]:
        """Texts worth telling beside these lines, best first."""
        ...
