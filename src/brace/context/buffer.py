"""The growing context `C_t`: append-only, counted once per segment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from brace.context.segments import HEAD_KINDS, LATEST_ONLY, Kind, Line, Segment
from brace.context.tokens import Tokenizer


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
