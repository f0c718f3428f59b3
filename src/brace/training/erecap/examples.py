"""What a predictor learns from: a text of lines and what follows it; and a tally of bad records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from brace.errors import BraceError

MOST_CHARS = 12_000
"""The longest text of an example unless said otherwise: about 3,000 tokens."""
_NAMED = 20


@dataclass(frozen=True, slots=True)
class Example:
    """A text to read, line by line, and what is to be written after it."""

    lines: tuple[str, ...]
    """Each with its line break; joined they are the prompt."""
    answer: str
    protected: frozenset[int] = frozenset()
    """Numbers of lines that are never pruned: the task, and what asks for the answer."""


class BadRecordError(BraceError):
    """A record no example can be made of; it is counted, and the others go on."""


@dataclass(slots=True)
class Faults:
    """Bad records: how many, and the first of them by name. One met again is not counted again."""

    named: list[str] = field(default_factory=list)
    """`file:record: why`, for the first ones."""
    _seen: set[str] = field(default_factory=set)

    @property
    def count(self) -> int:
        """How many there were."""
        return len(self._seen)

    def add(self, where: str, why: str) -> None:
        """Count the record at `file:record`."""
        if where in self._seen:
            return
        self._seen.add(where)
        if len(self.named) < _NAMED:
            self.named.append(f"{where}: {why}")


def lines_of(text: str) -> list[str]:
    """The lines of a text, each with its line break."""
    return [line + "\n" for line in text.strip().replace("\r\n", "\n").split("\n")]


def one_line(text: str) -> str:
    """The text without its line breaks and double spaces."""
    return " ".join(text.split())


def example_of(
    head: Sequence[str], history: Sequence[str], foot: str, answer: str, most_chars: int
) -> Example:
    """Head, as much of the latest history as there is room for, and foot; head's first line is the task."""
    room = most_chars - sum(map(len, head)) - len(foot)
    kept: list[str] = []
    for line in reversed(history):
        if len(line) > room:
            # Some contexts are one long line: better its end than nothing.
            kept += [line[-room:]] if not kept and room > 0 else []
            break
        room -= len(line)
        kept.append(line)
    lines = (*head, *reversed(kept), foot)
    return Example(lines, answer, frozenset({0, len(lines) - 1}))
