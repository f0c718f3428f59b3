"""ALFRED: household tasks with human directions and an expert's actions (`traj_data.json`).

An example is cut between two subgoals: what was done so far is read, the rest of the plan is written.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from brace.training.erecap.examples import BadRecordError, Example, Faults, example_of, one_line
from brace.training.erecap.sources.files import files_below
from brace.training.erecap.sources.source import Record

FOOT = "Plan:\n"


def alfred_records(path: Path, faults: Faults) -> Iterator[Record]:
    """The trajectories; not those of the benchmark's own validation and test."""
    for file in files_below(path, _is_wanted, faults):
        yield Record(file.name, partial(_made, file.read))


def _is_wanted(name: PurePosixPath) -> bool:
    return name.name == "traj_data.json" and not any(
        part.startswith(("valid", "test")) for part in name.parts
    )


def _made(read: Callable[[], bytes], chance: random.Random, most_chars: int) -> Example:
    trajectory = json.loads(read())
    told = chance.choice(trajectory["turk_annotations"]["anns"])
    subgoals = [_subgoal(step) for step in trajectory["plan"]["high_pddl"]]
    subgoals = [subgoal for subgoal in subgoals if subgoal != "NoOp"]
    if not subgoals:
        raise BadRecordError("the plan is empty")
    cut = chance.randrange(len(subgoals))
    head = [f"Task: {one_line(told['task_desc'])}\n"]
    head += [f"Direction {n}: {one_line(text)}\n" for n, text in enumerate(told["high_descs"], start=1)]
    done: list[list[str]] = [[f"Done: {subgoal}\n"] for subgoal in subgoals[:cut]]
    for step, action in enumerate(trajectory["plan"]["low_actions"]):
        if action["high_idx"] < cut:
            done[action["high_idx"]].insert(-1, f"Step {step}: {_action(action['api_action'])}\n")
    history = [line for lines in done for line in lines]
    return example_of(head, history, FOOT, "\n".join(subgoals[cut:]), most_chars)


def _subgoal(step: Mapping[str, Any]) -> str:
    action = step["discrete_action"]
    return " ".join([action["action"], *(name for name in action["args"] if name)])


def _action(call: Mapping[str, Any]) -> str:
    """The action and what it is done to: of `Mug|-01.35|+01.24|-00.65` the kind is enough."""
    things = [call[name].split("|")[0] for name in ("objectId", "receptacleObjectId") if name in call]
    return " ".join([call["action"], *things])
