"""The pieces a context is made of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from brace.context.tokens import Span, Tokenizer

Kind = Literal[
    "task", "goal", "safety", "plan", "observation", "action", "failure", "message", "retrieved"
]  # fmt: skip

HEAD_KINDS: frozenset[Kind] = frozenset({"task", "goal", "safety"})
"""These stand at the head of the prompt: only then can what follows be read in their light."""

LATEST_ONLY: frozenset[Kind] = frozenset({"goal", "plan", "failure"})
"""Of these only each agent's latest is never cut: an old plan or goal is history."""

HEADER = re.compile(r"\[(?P<kind>\w+) \d+(?: a(?P<agent>\d+))?\] ")
"""What a rendered segment begins with."""

_EVENTS: frozenset[str] = frozenset({"action", "failure"})

_FLOOR_KINDS: frozenset[Kind] = frozenset({"task", "goal", "safety", "plan", "failure"})


@dataclass(frozen=True, slots=True)
class Segment:
    """One thing the planner could be told."""

    kind: Kind
    text: str
    step: int = 0
    agent: int | None = None
    """Whose it is; None for what concerns all."""
    floor: bool | None = None
    """Never cut it. None takes the kind's own rule: task, goal, safety, current plan, last failure."""

    @property
    def is_floor(self) -> bool:
        """Whether it may never be cut (as long as it is the latest, for kinds that supersede)."""
        return self.kind in _FLOOR_KINDS if self.floor is None else self.floor

    def render(self) -> str:
        """One line of the prompt, newline included."""
        who = "" if self.agent is None else f" a{self.agent}"
        return f"[{self.kind} {self.step}{who}] {self.text.strip().replace(chr(10), ' | ')}\n"


@dataclass(slots=True)
class Line:
    """A rendered segment with its length in the planner's tokens."""

    segment: Segment
    text: str
    tokens: int
    floor: bool = False
    _spans: list[Span] | None = field(default=None, repr=False, compare=False)

    def spans(self, tokenizer: Tokenizer) -> list[Span]:
        """Where its tokens lie; worked out once."""
        if self._spans is None:
            self._spans = tokenizer.spans(self.text)
        return self._spans


def said_again(lines: Sequence[str]) -> set[int]:
    """The numbers of rendered lines that a later one repeats.

    A message is about the world: the same from another is the same. What an agent observed, or was told to
    do, is its own. Actions and failures are events: each one counts.
    """
    seen: set[tuple[str, str | None, str]] = set()
    repeated = set()
    for number in range(len(lines) - 1, -1, -1):
        header = HEADER.match(lines[number])
        kind = "" if header is None else header["kind"]
        if kind in _EVENTS:
            continue
        agent = None if header is None or kind == "message" else header["agent"]
        said = (kind, agent, lines[number][0 if header is None else header.end() :])
        if said in seen:
            repeated.add(number)
        seen.add(said)
    return repeated
