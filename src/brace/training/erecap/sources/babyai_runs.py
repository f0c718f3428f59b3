"""BabyAI episodes that language models played for BALROG: a table of steps and a .json with the mission.

Other games' runs that lie beside them are passed over.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath

from brace.training.erecap.examples import BadRecordError, Example, Faults, example_of
from brace.training.erecap.sources.files import csv_rows, files_below
from brace.training.erecap.sources.pairs import both, paired
from brace.training.erecap.sources.source import Record

FOOT = "Next action:\n"
_RUN = re.compile(r".*_run_\d+\.(csv|json)")
# The wording changed between versions of the benchmark.
_REFUSED = re.compile(r"Your previous output .*?Defaulted to action: ([^\n]*)(?:\s*Observation:)?", re.S)


def babyai_records(path: Path, faults: Faults) -> Iterator[Record]:
    """The episodes."""
    for name, halves in paired(files_below(path, _is_wanted, faults), _run_and_half):
        yield Record(name, partial(_made, halves))


def _is_wanted(name: PurePosixPath) -> bool:
    folders = [part.lower() for part in name.parts[:-1]]
    is_babyai = any(part == "babyai" or part.startswith("babyai-") for part in folders)
    return is_babyai and _RUN.fullmatch(name.name) is not None


def _run_and_half(name: str) -> tuple[str, str]:
    run, _, half = name.rpartition(".")
    return run, f".{half}"


def _made(halves: dict[str, bytes], chance: random.Random, most_chars: int) -> Example:
    table, about = both(halves, ".csv", ".json")
    mission = json.loads(about)["mission"].strip()
    history: list[list[str]] = []
    actions: dict[int, str] = {}
    for number, row in enumerate(csv_rows(table)):
        action, seen = row["Action"].strip(), row["Observation"]
        refused = _REFUSED.search(seen)
        if refused is None:
            actions[number] = action
            said = f"Step {number}: {action}\n"
        else:
            said = f"Step {number}: {refused[1]} (by default)\n"
            seen = seen[refused.end() :]
        history.append([said, *(line.strip() + "\n" for line in seen.split("\n") if line.strip())])
    # A table tells what was seen after each action, so there is nothing to read before the first one.
    cuts = [number for number in actions if number > 0]
    if not cuts:
        raise BadRecordError("no valid action after the first")
    cut = chance.choice(cuts)
    lines = [line for step in history[:cut] for line in step]
    return example_of([f"Task: {mission}\n"], lines, FOOT, actions[cut], most_chars)
