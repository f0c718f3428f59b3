"""What a predictor learns from: a text of lines and what follows it; and a tally of bad records.

Instruction data is mostly a line or two: there is nothing to prune in it. Among lines of other records, with
its own task first and its own last line last, a record becomes a context in which most does not matter; what
does has to be told from it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from brace.context.segments import said_again
from brace.errors import BraceError

MOST_CHARS = 12_000
"""The longest text of an example unless said otherwise: about 3,000 tokens."""
_NAMED = 20
_COMPANY = 64
"""Others are drawn from so many records that came before."""
_LEAST_CHARS = 600


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


def packed(examples: Iterable[Example], most_chars: int, seed: int) -> Iterator[Example]:
    """Each example, with others' lines around its own wherever it is shorter than a length drawn for it."""
    draw = random.Random(seed)
    company: list[Example] = []
    for example in examples:
        # Short texts as often as long ones, on a scale of proportions.
        low, high = math.log(min(_LEAST_CHARS, most_chars)), math.log(most_chars)
        yield _among(example, company, int(math.exp(draw.uniform(low, high))), draw)
        company.append(example)
        if len(company) > _COMPANY:
            company.pop(draw.randrange(_COMPANY))


def _among(example: Example, company: list[Example], chars: int, draw: random.Random) -> Example:
    room = chars - sum(map(len, example.lines)) - len(example.answer)
    around: list[tuple[str, ...]] = []
    for other in draw.sample(company, len(company)):
        # Without the line that asks, because only the example's own asks for anything.
        lines = (*other.lines[:-1], *(line + "\n" for line in other.answer.splitlines()))
        size = sum(map(len, lines))
        if size <= room:
            around.append(lines)
            room -= size
    first, own, last = example.lines[:1], example.lines[1:-1], example.lines[-1:]
    cut = draw.randint(0, len(around))
    before = [line for lines in around[:cut] for line in lines]
    after = [line for lines in around[cut:] for line in lines]
    count = len(example.lines)

    def moved(number: int) -> int:
        if number == 0:
            return 0
        return number + len(before) + (len(after) if number == count - 1 else 0)

    return Example(
        (*first, *before, *own, *after, *last), example.answer, frozenset(map(moved, example.protected))
    )


def said_once(example: Example) -> Example:
    """The example without the lines that later ones repeat, except protected ones."""
    repeated = said_again(example.lines) - example.protected
    numbers = [number for number in range(len(example.lines)) if number not in repeated]
    protected = frozenset(place for place, number in enumerate(numbers) if number in example.protected)
    return Example(tuple(example.lines[number] for number in numbers), example.answer, protected)
