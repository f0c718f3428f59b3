"""TEACh: a commander and a robot talk in a kitchen; what the robot does after that is the plan.

Read are the original EDH instances (`*.edh0.json`), and tables with the columns dialog and
gameplan_prediction made of them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from brace.training.erecap.examples import BadRecordError, Example, Faults, example_of, one_line
from brace.training.erecap.sources.files import UnreadableFileError, csv_rows, files_below
from brace.training.erecap.sources.source import Record

FOOT = "Plan:\n"
_TURN, _STEP = "<<TURN>>", "--"


def teach_records(path: Path, faults: Faults) -> Iterator[Record]:
    """The rows of tables, and EDH instances."""
    for file in files_below(path, _is_wanted, faults):
        if file.name.endswith(".json"):
            yield Record(file.name, partial(_made_of_instance, file.read))
            continue
        try:
            for number, row in enumerate(csv_rows(file.read())):
                if not {"dialog", "gameplan_prediction"} <= row.keys():
                    raise UnreadableFileError(f"{file.name} has no columns dialog and gameplan_prediction")
                yield Record(f"{file.name}:{number}", partial(_made_of_row, row))
        except BadRecordError as error:
            faults.add(file.name, f"{error}; what came before is used")


def _is_wanted(name: PurePosixPath) -> bool:
    return name.suffix == ".csv" or (name.suffix == ".json" and ".edh" in name.name)


def _made_of_row(row: Mapping[str, str], _: random.Random, most_chars: int) -> Example:
    plan = (one_line(step) for step in row["gameplan_prediction"].split(_STEP))
    return _made(row["dialog"].split(_TURN), [], plan, most_chars)


def _made_of_instance(read: Callable[[], bytes], _: random.Random, most_chars: int) -> Example:
    instance = json.loads(read())
    said = [f"{speaker}: {text}" for speaker, text in instance["dialog_history_cleaned"]]
    done = [f"Done: {step}\n" for step in _interactions(instance["driver_action_history"])]
    return _made(said, done, _interactions(instance["driver_actions_future"]), most_chars)


def _interactions(actions: Iterable[Mapping[str, Any]]) -> list[str]:
    """What was done to things; walking about is left out, as in the tables."""
    touched = [action for action in actions if action["obj_interaction_action"]]
    return [f"{action['action_name']} {(action['oid'] or '').split('|')[0]}".strip() for action in touched]


def _made(said: Iterable[str], done: list[str], plan: Iterable[str], most_chars: int) -> Example:
    turns = [one_line(turn) + "\n" for turn in said if turn.strip()]
    if not turns:
        raise BadRecordError("nobody says anything")
    answer = "\n".join(step for step in plan if step)
    return example_of(turns[:1], turns[1:] + done, FOOT, answer, most_chars)
