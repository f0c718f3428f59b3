"""The context `C_t`: the segments it is made of, the buffer it grows in, and how long it gets (Eq. 4)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
        # One segment is one line, for lines are what is cut, counted and kept.
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


class ContextBuffer:
    """Everything the planner could be told so far. Appending costs what the new segment costs.

    `tokens` is the sum over lines: exact where tokens do not reach across a line's end (the built-in
    tokenizer), within a token a line elsewhere. The call path counts the final prompt as a whole.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.tokens = 0
        self._head: list[Line] = []
        self._body: list[Line] = []
        self._latest: dict[tuple[Kind, int | None], int] = {}
        self._contributed: Counter[tuple[int, int | None]] = Counter()

    def append(self, segment: Segment) -> None:
        """Add one segment: O(its own tokens), whatever the context's length."""
        text = segment.render()
        line = Line(segment, text, self.tokenizer.count(text), floor=segment.is_floor)
        part = self._head if segment.kind in HEAD_KINDS else self._body
        if segment.kind in LATEST_ONLY:
            key = (segment.kind, segment.agent)
            superseded = self._latest.get(key)
            if superseded is not None:
                # Replaced, not changed: a call in another thread may hold the old line.
                part[superseded] = replace(part[superseded], floor=False)
            self._latest[key] = len(part)
        part.append(line)
        self.tokens += line.tokens
        self._contributed[segment.step, segment.agent] += line.tokens

    def extend(self, segments: Iterable[Segment]) -> None:
        """Append several."""
        for segment in segments:
            self.append(segment)

    def lines(self) -> list[Line]:
        """A snapshot in prompt order: task, goal and safety first, then the rest as it came."""
        return self._head + self._body

    def contributions(self) -> dict[tuple[int, int | None], int]:
        """n_{i,a} of Eq. 4: tokens added at step i by agent a (None: by no agent)."""
        return dict(self._contributed)

    def __len__(self) -> int:
        return len(self._head) + len(self._body)


def said_again(lines: Sequence[str]) -> set[int]:
    """The numbers of rendered lines that a later one repeats.

    A message is about the world: the same from another is the same. What an agent observed, or was told to
    do, is its own. Actions and failures are events: each one counts.
    """
    seen: set[tuple[str, str | None, str]] = set()
    repeated = set()
    # From the end, for of equal lines the last one stays.
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


@dataclass(frozen=True, slots=True)
class Growth:
    """Steady growth, `N_t = N_0 + Σ_i Σ_a n_{i,a}`: every agent adds the same number of tokens each step."""

    start: float
    """N_0."""
    per_agent_step: float
    """n, the mean of n_{i,a}."""
    agents: int = 1
    """K."""

    def at(self, t: int) -> float:
        """N_t."""
        return self.start + t * self.agents * self.per_agent_step


def fit_growth(contributions: Mapping[tuple[int, int | None], int], agents: int) -> Growth:
    """The steady growth that a buffer's contributions show: step 0 is N_0, the mean over the rest is n."""
    start = sum(tokens for (step, _), tokens in contributions.items() if step == 0)
    steps = max((step for step, _ in contributions), default=0)
    grown = sum(contributions.values()) - start
    return Growth(start, grown / (steps * agents) if steps else 0.0, agents)
