"""The project's own worlds: recorded episodes, and the plan their perfect reader makes at a random moment."""

from __future__ import annotations

import lzma
import math
import random
from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import get_args

from brace.context import Kind, Segment
from brace.context.segments import HEADER, LATEST_ONLY
from brace.training.erecap.examples import BadRecordError, Example, Faults
from brace.training.erecap.sources.source import Record, UnreadableFileError
from brace.training.lessons import make_lesson
from brace.training.logs import Log, read_logs
from brace.training.readers import reader_of

_FLOORS = {kind for kind in get_args(Kind) if Segment(kind, "").is_floor}
_LEAST_CHARS = 600
_FILLED = 0.7
"""An example is at least so much of the length drawn for it, if its episode is long enough."""


def world_records(path: Path, faults: Faults) -> Iterator[Record]:
    """The logs of the folder's .xz files, or of the one file given."""
    # Sorted, because records are told apart by their number.
    for file in sorted(path.glob("*.xz")) if path.is_dir() else [path]:
        number = 0
        try:
            for number, log in enumerate(read_logs(file), start=1):
                yield Record(f"{file.name}:{number - 1}", partial(_made, log))
        except (lzma.LZMAError, OSError) as error:
            if number == 0:
                raise UnreadableFileError(f"{file} is no .xz file ({error})") from error
            faults.add(f"{file.name}:{number}", f"the file breaks off ({error}); what came before is used")
        except (KeyError, TypeError, ValueError) as error:
            faults.add(f"{file.name}:{number}", f"no log ({error!r}); the rest of the file is not used")


def _made(log: Log, chance: random.Random, most_chars: int) -> Example:
    if not log.segments:
        raise BadRecordError("nothing was said")
    # Short texts as often as long ones, on a scale of proportions.
    size = int(math.exp(chance.uniform(math.log(min(_LEAST_CHARS, most_chars)), math.log(most_chars))))
    said = accumulate((len(segment.render()) for segment in log.segments), initial=len(log.head))
    first = next((n for n, chars in enumerate(said) if n and chars >= _FILLED * size), len(log.segments))
    lesson = make_lesson(log, reader_of(log), chance, size, first=first)
    lines = tuple(lesson.prompt.splitlines(keepends=True))
    return Example(lines, lesson.plan, _protected(lines, log.head.count("\n")))


def _protected(lines: tuple[str, ...], head: int) -> frozenset[int]:
    """The template's lines, and those the context buffer would protect."""
    kept = {*range(head), len(lines) - 1}
    latest: dict[tuple[str, str | None], int] = {}
    for number, line in enumerate(lines[head:], start=head):
        header = HEADER.match(line)
        if header is None or header["kind"] not in _FLOORS:
            continue
        if header["kind"] in LATEST_ONLY:
            owner = header["kind"], header["agent"]
            kept.discard(latest.get(owner, -1))
            latest[owner] = number
        kept.add(number)
    return frozenset(kept)
