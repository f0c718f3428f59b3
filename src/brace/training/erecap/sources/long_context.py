"""Long texts to measure on, never trained on: LongBench's multi_news and RULER's niah_multikey_3.

They are not shortened: their length is what is measured.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath

from brace.training.erecap.examples import Example, Faults, lines_of
from brace.training.erecap.sources.files import files_below
from brace.training.erecap.sources.instruct import json_lines
from brace.training.erecap.sources.source import Record

_MakeOfLine = Callable[[bytes, random.Random, int], Example]


def multi_news_records(path: Path, faults: Faults) -> Iterator[Record]:
    """News to be summed up."""
    return _records(path, "multi_news", _multi_news, faults)


def niah_records(path: Path, faults: Faults) -> Iterator[Record]:
    """One of many identifiers to be found again."""
    return _records(path, "niah_multikey_3", _niah, faults)


def _records(path: Path, task: str, make: _MakeOfLine, faults: Faults) -> Iterator[Record]:
    def is_wanted(name: PurePosixPath) -> bool:
        return name.suffix == ".jsonl" and any(part.startswith(task) for part in (path.name, *name.parts))

    for file in files_below(path, is_wanted, faults):
        for name, line in json_lines(file.name, file.read()):
            yield Record(name, partial(make, line))


def _multi_news(line: bytes, _: random.Random, __: int) -> Example:
    item = json.loads(line)
    # The set marks line breaks within an article with a word.
    news = lines_of(item["context"].replace("NEWLINE_CHAR", "\n"))
    news = [row.strip() + "\n" for row in news if row.strip()]
    lines = ("Task: Sum up all of the news below on one page.\n", *news, "Summary:\n")
    return Example(lines, item["answers"][0], frozenset({0, len(lines) - 1}))


def _niah(line: bytes, _: random.Random, __: int) -> Example:
    item = json.loads(line)
    *text, asked = lines_of(item["input"])
    # The generator begins the answer after the question; here the answer is the identifier alone.
    question = asked.partition("?")[0] + "?\n"
    lines = (*text, question, "Answer:\n")
    return Example(lines, ", ".join(item["outputs"]), frozenset({0, len(lines) - 2, len(lines) - 1}))
