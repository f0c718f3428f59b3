"""Instructions and responses: Alpaca, Dolly, Self-Instruct.

Lists in .json and lines in .jsonl are read, with the fields of any of the three.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from brace.training.erecap.examples import BadRecordError, Example, Faults, example_of, lines_of
from brace.training.erecap.sources.files import files_below, json_list
from brace.training.erecap.sources.source import Record

FOOT = "Answer:\n"


def instruct_records(path: Path, faults: Faults) -> Iterator[Record]:
    """The records of all .json and .jsonl files."""
    for file in files_below(path, _is_wanted, faults):
        if file.name.endswith(".json"):
            for number, fields in enumerate(json_list(file)):
                yield Record(f"{file.name}:{number}", partial(_made, fields))
        else:
            for name, line in json_lines(file.name, file.read()):
                yield Record(name, partial(_made_of_line, line))


def json_lines(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """The lines of a .jsonl file that are not blank, with their names."""
    for number, line in enumerate(content.split(b"\n")):
        if line.strip():
            yield f"{name}:{number}", line


def _is_wanted(name: PurePosixPath) -> bool:
    return name.suffix in (".json", ".jsonl")


def _made_of_line(line: bytes, chance: random.Random, most_chars: int) -> Example:
    return _made(json.loads(line), chance, most_chars)


def _made(fields: Mapping[str, Any], chance: random.Random, most_chars: int) -> Example:
    # Self-Instruct has several inputs with outputs to one instruction, the others have one.
    instance = chance.choice(fields["instances"]) if "instances" in fields else fields
    asked = lines_of(fields["instruction"])
    if asked == ["\n"]:
        raise BadRecordError("the instruction is empty")
    given = _either(instance, "input", "context")
    more = lines_of(given) if given.strip() else []
    answer = _either(instance, "output", "response").strip()
    return example_of(asked[:1], asked[1:] + more, FOOT, answer, most_chars)


def _either(fields: Mapping[str, Any], name: str, other: str) -> str:
    found = fields[name] if name in fields else fields[other]
    if not isinstance(found, str):
        raise BadRecordError(f"{name!r} is no text")
    return found
