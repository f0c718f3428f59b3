"""Teams led by a language model (LLaMAR's logs): what they remember, what each did, and whether it worked."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath

from brace.training.erecap.examples import BadRecordError, Example, Faults, example_of, one_line
from brace.training.erecap.sources.files import csv_rows, files_below
from brace.training.erecap.sources.pairs import both, paired
from brace.training.erecap.sources.source import Record

FOOT = "Next actions:\n"
_MEMORY, _TRAJECTORY = "memory.csv", "trajectory.csv"
_NAMES = ("Alice", "Bob", "Charlie", "David", "Emma", "Frank", "Grace", "Henry")


def multi_agent_records(path: Path, faults: Faults) -> Iterator[Record]:
    """The episodes: folders with a memory.csv and a trajectory.csv."""
    files = files_below(path, _is_wanted, faults)
    for name, halves in paired(
        files, lambda name: (str(PurePosixPath(name).parent), PurePosixPath(name).name)
    ):
        yield Record(name, partial(_made, halves))


def _is_wanted(name: PurePosixPath) -> bool:
    return name.name in (_MEMORY, _TRAJECTORY)


def _made(halves: dict[str, bytes], chance: random.Random, most_chars: int) -> Example:
    memory, trajectory = both(halves, _MEMORY, _TRAJECTORY)
    # The last step of some episodes was remembered but not acted on.
    steps = list(zip(csv_rows(memory), csv_rows(trajectory), strict=False))
    actions = [ast.literal_eval(done["Action"]) for _, done in steps]
    cuts = [number for number, asked in enumerate(actions) if set(asked) != {"Done"}]
    if not cuts:
        raise BadRecordError("nothing is done")
    cut = chance.choice(cuts)
    team = _NAMES[: len(actions[0])]
    history: list[str] = []
    remembered = ""
    for number, (thought, done) in enumerate(steps[: cut + 1]):
        # It is written down before the step is acted on, and often stays the same.
        if thought["Memory"] != remembered:
            remembered = thought["Memory"]
            history.append(f"[memory {number}] {one_line(remembered)}\n")
        if number < cut:
            history += _told(number, team, thought, actions[number], done["Success"])
    head = [f"Task: {', '.join(team)} work as a team. Say what each of them does next.\n"]
    answer = "\n".join(f"{name}: {action}" for name, action in zip(team, actions[cut], strict=True))
    return example_of(head, history, FOOT, answer, most_chars)


def _told(
    number: int, team: tuple[str, ...], thought: Mapping[str, str], actions: list[str], success: str
) -> list[str]:
    lines = [f"[{kind.lower()} {number}] {one_line(thought[kind])}\n" for kind in ("Subtask", "Reason")]
    for name, action, worked in zip(team, actions, ast.literal_eval(success), strict=True):
        lines.append(f"[action {number}] {name}: {action}{'' if worked else ' failed'}\n")
    return lines
