"""Texts to read and answer: instructions, long texts, and made-up facts.

- Alpaca, Dolly, Self-Instruct: instructions and responses. Lists in .json and lines in .jsonl are read, with
  the fields of any of the three.
- LongBench's multi_news and RULER's niah_multikey_3: to measure on, never trained on. They are not shortened:
  their length is what is measured.
- Keys: several facts are given, one is asked for. Packing puts other records around them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from brace.training.erecap.examples import BadRecordError, Example, Faults, example_of, lines_of
from brace.training.erecap.sources.source import Record, files_below, json_list

_ANSWER = "Answer:\n"
_MakeOfLine = Callable[[bytes, random.Random, int], Example]
_QUESTIONS = 4000
_KEYS = [
    "amber", "basalt", "cedar", "delta", "ember", "fjord", "garnet", "harbor", "indigo", "juniper", "kelp",
    "lagoon", "maple", "nectar", "onyx", "pebble", "quartz", "raven", "saffron", "topaz", "umber", "velvet",
    "willow", "xenon", "yarrow", "zephyr",
]  # fmt: skip
_FACTS = 5


def instruct_records(path: Path, faults: Faults) -> Iterator[Record]:
    """The records of all .json and .jsonl files."""
    for file in files_below(path, lambda name: name.suffix in (".json", ".jsonl"), faults):
        if file.name.endswith(".json"):
            for number, fields in enumerate(json_list(file)):
                yield Record(f"{file.name}:{number}", partial(_instruction, fields))
        else:
            for name, line in _json_lines(file.name, file.read()):
                yield Record(name, partial(_instruction_of_line, line))


def _json_lines(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """The lines of a .jsonl file that are not blank, with their names."""
    for number, line in enumerate(content.split(b"\n")):
        if line.strip():
            yield f"{name}:{number}", line


def _instruction_of_line(line: bytes, chance: random.Random, most_chars: int) -> Example:
    return _instruction(json.loads(line), chance, most_chars)


def _instruction(fields: Mapping[str, Any], chance: random.Random, most_chars: int) -> Example:
    # Self-Instruct has several inputs with outputs to one instruction, the others have one.
    instance = chance.choice(fields["instances"]) if "instances" in fields else fields
    asked = lines_of(fields["instruction"])
    if asked == ["\n"]:
        raise BadRecordError("the instruction is empty")
    given = _either(instance, "input", "context")
    more = lines_of(given) if given.strip() else []
    answer = _either(instance, "output", "response").strip()
    return example_of(asked[:1], asked[1:] + more, _ANSWER, answer, most_chars)


def _either(fields: Mapping[str, Any], name: str, other: str) -> str:
    found = fields[name] if name in fields else fields[other]
    if not isinstance(found, str):
        raise BadRecordError(f"{name!r} is no text")
    return found


def multi_news_records(path: Path, faults: Faults) -> Iterator[Record]:
    """News to be summed up."""
    return _long_records(path, "multi_news", _multi_news, faults)


def niah_records(path: Path, faults: Faults) -> Iterator[Record]:
    """One of many identifiers to be found again."""
    return _long_records(path, "niah_multikey_3", _niah, faults)


def _long_records(path: Path, task: str, make: _MakeOfLine, faults: Faults) -> Iterator[Record]:
    def is_wanted(name: PurePosixPath) -> bool:
        return name.suffix == ".jsonl" and any(part.startswith(task) for part in (path.name, *name.parts))

    for file in files_below(path, is_wanted, faults):
        for name, line in _json_lines(file.name, file.read()):
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


def key_records(_: Path, __: Faults) -> Iterator[Record]:
    """So many questions; nothing is read."""
    for number in range(_QUESTIONS):
        yield Record(f"keys:{number}", partial(_keys, number))


def _keys(number: int, _: random.Random, __: int) -> Example:
    # By number alone, so that a held-out question is never met in training under another seed.
    chance = random.Random(number)
    keys = chance.sample(_KEYS, _FACTS)
    codes = [str(chance.randrange(100_000, 1_000_000)) for _ in keys]
    facts = [f"The code of {key} is {code}.\n" for key, code in zip(keys, codes, strict=True)]
    task = f"Task: find the code of {keys[0]} in the notes.\n"
    asked = f"What is the code of {keys[0]}?\n"
    chance.shuffle(facts)
    return Example((task, *facts, asked), f"The code of {keys[0]} is {codes[0]}.", frozenset({0, _FACTS + 1}))
