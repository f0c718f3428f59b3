"""The contract of a retriever: memories that belong to what is going on, within a few tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from brace.callpath.call import OpenCall, Stage
from brace.context import Line, Segment


class Retriever(ABC):
    """Finds what was learned before. What it gives is added to the prompt inside the budget."""

    needs_extra: ClassVar[str | None] = None
    """What to install: `pip install 'brace-replan[extra]'`."""
    name: ClassVar[str]
    reserve: int = 0
    """Tokens of the budget that compression leaves to it."""

    @abstractmethod
    def retrieve(self, lines: Sequence[Line]) -> list[str]:
        """Texts worth telling beside these lines, best first."""


class Retrieve(Stage):
    """Adds what was found, as far as the budget goes."""

    phase: ClassVar[str] = "retrieve"

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever
        self.reserve = retriever.reserve

    def run(self, call: OpenCall) -> None:
        """One found text after the other, each if the whole prompt still fits."""
        if call.in_model is not None:
            # The planner prunes what it is shown, and could prune this too.
            return
        step = max((line.segment.step for line in call.lines), default=0)
        for found in self._retriever.retrieve(call.lines):
            segment = Segment("retrieved", found, step)
            before = call.shown
            if not call.show([*before, Line(segment, segment.render(), 0)]):
                call.show(before)
