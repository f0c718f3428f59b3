"""Short records in long company.

Instruction data is mostly a line or two: there is nothing to prune in it. Among lines of other records, with
its own task first and its own last line last, a record becomes a context in which most does not matter; what
does has to be told from it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator

from brace.context.segments import said_again
from brace.training.erecap.examples import Example

_COMPANY = 64
"""Others are drawn from so many records that came before."""
_LEAST_CHARS = 600


def packed(examples: Iterable[Example], most_chars: int, seed: int) -> Iterator[Example]:
    """Each example, with others' lines around its own wherever it is shorter than a length drawn for it."""
    draw = random.Random(seed)
    company: list[Example] = []
    for example in examples:
        low, high = math.log(min(_LEAST_CHARS, most_chars)), math.log(most_chars)
        yield _among(example, company, int(math.exp(draw.uniform(low, high))), draw)
        company.append(example)
        if len(company) > _COMPANY:
            company.pop(draw.randrange(_COMPANY))


def _among(example: Example, company: list[Example], chars: int, draw: random.Random) -> Example:
    room = chars - sum(map(len, example.lines)) - len(example.answer)
    around: list[tuple[str, ...]] = []
    for other in draw.sample(company, len(company)):
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
