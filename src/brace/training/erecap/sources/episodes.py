"""Episodes of those who act, as they are published: cut at some moment, what came after it is to be written.

- ALFRED (`traj_data.json`): household tasks with human directions and an expert's actions, cut between two
  subgoals.
- TEACh: a commander and a robot talk in a kitchen; what the robot does after that is the plan. Read are the
  original EDH instances (`*.edh0.json`), and tables with the columns dialog and gameplan_prediction made of
  them.
- BabyAI, played by language models for BALROG: a table of steps and a .json with the mission. Other games'
  runs that lie beside them are passed over.
- LLaMAR's logs, of teams led by a language model: what they remember, what each did, and whether it worked.
"""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from brace.training.erecap.examples import BadRecordError, Example, Faults, example_of, one_line
from brace.training.erecap.sources.source import (
    Record,
    UnreadableFileError,
    both,
    csv_rows,
    files_below,
    paired,
)

_PLAN = "Plan:\n"
_TURN, _STEP = "<<TURN>>", "--"
_NEXT_ACTION = "Next action:\n"
_RUN = re.compile(r".*_run_\d+\.(csv|json)")
# The wording changed between versions of the benchmark.
_REFUSED = re.compile(r"Your previous output .*?Defaulted to action: ([^\n]*)(?:\s*Observation:)?", re.S)
_NEXT_ACTIONS = "Next actions:\n"
_MEMORY, _TRAJECTORY = "memory.csv", "trajectory.csv"
_NAMES = ("Alice", "Bob", "Charlie", "David", "Emma", "Frank", "Grace", "Henry")


def alfred_records(path: Path, faults: Faults) -> Iterator[Record]:
    """The trajectories; not those of the benchmark's own validation and test."""
    for file in files_below(path, _is_trajectory, faults):
        yield Record(file.name, partial(_alfred, file.read))


def _is_trajectory(name: PurePosixPath) -> bool:
    return name.name == "traj_data.json" and not any(
        part.startswith(("valid", "test")) for part in name.parts
    )


def _alfred(read: Callable[[], bytes], chance: random.Random, most_chars: int) -> Example:
    trajectory = json.loads(read())
    told = chance.choice(trajectory["turk_annotations"]["anns"])
    planned = [step["discrete_action"] for step in trajectory["plan"]["high_pddl"]]
    subgoals = [" ".join([action["action"], *filter(None, action["args"])]) for action in planned]
    # ALFRED's plans end with a step in which nothing is done.
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
    return example_of(head, history, _PLAN, "\n".join(subgoals[cut:]), most_chars)


def _action(call: Mapping[str, Any]) -> str:
    """The action and what it is done to: of `Mug|-01.35|+01.24|-00.65` the kind is enough."""
    things = [call[name].split("|")[0] for name in ("objectId", "receptacleObjectId") if name in call]
    return " ".join([call["action"], *things])


def teach_records(path: Path, faults: Faults) -> Iterator[Record]:
    """The rows of tables, and EDH instances."""
    for file in files_below(
        path, lambda name: name.suffix == ".csv" or (name.suffix == ".json" and ".edh" in name.name), faults
    ):
        if file.name.endswith(".json"):
            yield Record(file.name, partial(_teach_instance, file.read))
            continue
        try:
            for number, row in enumerate(csv_rows(file.read())):
                if not {"dialog", "gameplan_prediction"} <= row.keys():
                    raise UnreadableFileError(f"{file.name} has no columns dialog and gameplan_prediction")
                yield Record(f"{file.name}:{number}", partial(_teach_row, row))
        except BadRecordError as error:
            faults.add(file.name, f"{error}; what came before is used")


def _teach_row(row: Mapping[str, str], _: random.Random, most_chars: int) -> Example:
    plan = (one_line(step) for step in row["gameplan_prediction"].split(_STEP))
    return _teach(row["dialog"].split(_TURN), [], plan, most_chars)


def _teach_instance(read: Callable[[], bytes], _: random.Random, most_chars: int) -> Example:
    instance = json.loads(read())
    said = [f"{speaker}: {text}" for speaker, text in instance["dialog_history_cleaned"]]
    done = [f"Done: {step}\n" for step in _interactions(instance["driver_action_history"])]
    return _teach(said, done, _interactions(instance["driver_actions_future"]), most_chars)


def _interactions(actions: Iterable[Mapping[str, Any]]) -> list[str]:
    """What was done to things; walking about is left out, as in the tables."""
    touched = [action for action in actions if action["obj_interaction_action"]]
    return [f"{action['action_name']} {(action['oid'] or '').split('|')[0]}".strip() for action in touched]


def _teach(said: Iterable[str], done: list[str], plan: Iterable[str], most_chars: int) -> Example:
    turns = [one_line(turn) + "\n" for turn in said if turn.strip()]
    if not turns:
        raise BadRecordError("nobody says anything")
    answer = "\n".join(step for step in plan if step)
    return example_of(turns[:1], turns[1:] + done, _PLAN, answer, most_chars)


def babyai_records(path: Path, faults: Faults) -> Iterator[Record]:
    """The episodes."""
    files = files_below(path, _is_babyai, faults)
    for name, halves in paired(files, lambda name: (name.rpartition(".")[0], PurePosixPath(name).suffix)):
        yield Record(name, partial(_babyai, halves))


def _is_babyai(name: PurePosixPath) -> bool:
    folders = [part.lower() for part in name.parts[:-1]]
    is_babyai = any(part == "babyai" or part.startswith("babyai-") for part in folders)
    return is_babyai and _RUN.fullmatch(name.name) is not None


def _babyai(halves: dict[str, bytes], chance: random.Random, most_chars: int) -> Example:
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
    return example_of([f"Task: {mission}\n"], lines, _NEXT_ACTION, actions[cut], most_chars)


def multi_agent_records(path: Path, faults: Faults) -> Iterator[Record]:
    """The episodes: folders with a memory.csv and a trajectory.csv."""
    files = files_below(path, lambda name: name.name in (_MEMORY, _TRAJECTORY), faults)
    for name, halves in paired(
        files, lambda name: (str(PurePosixPath(name).parent), PurePosixPath(name).name)
    ):
        yield Record(name, partial(_team_run, halves))


def _team_run(halves: dict[str, bytes], chance: random.Random, most_chars: int) -> Example:
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
    return example_of(head, history, _NEXT_ACTIONS, answer, most_chars)


def _told(
    number: int, team: tuple[str, ...], thought: Mapping[str, str], actions: list[str], success: str
) -> list[str]:
    lines = [f"[{kind.lower()} {number}] {one_line(thought[kind])}\n" for kind in ("Subtask", "Reason")]
    for name, action, worked in zip(team, actions, ast.literal_eval(success), strict=True):
        lines.append(f"[action {number}] {name}: {action}{'' if worked else ' failed'}\n")
    return lines
