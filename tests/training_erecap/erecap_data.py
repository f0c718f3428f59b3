"""Small data sets in every form a loader has to take, good and spoilt."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from brace.context import Segment
from brace.training.logs import Log, write_logs

Files = dict[str, bytes]
Spoilt = Collection[int]
"""Numbers of records that are no good."""


def _list(key: str, answer: str, count: int, spoilt: Spoilt) -> list[dict[str, Any]]:
    return [
        {"instruction": f"Say {n}.\nLoudly.", key: f"number {n}", answer: "" if n in spoilt else f"{n}!"}
        for n in range(count)
    ]


def _json_lines(name: str, items: list[Any], spoilt: Spoilt) -> Files:
    lines = [json.dumps(item)[:-9] if n in spoilt else json.dumps(item) for n, item in enumerate(items)]
    return {name: "\n".join([*lines, ""]).encode()}


def alpaca(count: int, spoilt: Spoilt = ()) -> Files:
    return {"alpaca_data.json": json.dumps(_list("input", "output", count, spoilt)).encode()}


def dolly_subset(count: int, spoilt: Spoilt = ()) -> Files:
    return {"dolly_3k.json": json.dumps(_list("input", "output", count, spoilt)).encode()}


def dolly(count: int, spoilt: Spoilt = ()) -> Files:
    return _json_lines("databricks-dolly-15k.jsonl", _list("context", "response", count, ()), spoilt)


def self_instruct(count: int, spoilt: Spoilt = ()) -> Files:
    tasks = [
        {"instruction": f"Say {n}.", "instances": [{"input": "", "output": f"{n}!"}]} for n in range(count)
    ]
    return _json_lines("seed_tasks.jsonl", tasks, spoilt)


def trajectory(number: int) -> dict[str, Any]:
    moves = ["MoveAhead", "RotateLeft", "LookDown"]
    low = [
        {"api_action": {"action": moves[n % 3]}, "high_idx": 0} for n in range(4)
    ] + [
        {"api_action": {"action": "PickupObject", "objectId": "Mug|-01.35|+01.24|-00.65"}, "high_idx": 1},
        {"api_action": {"action": "MoveAhead"}, "high_idx": 2},
        {
            "api_action": {"action": "PutObject", "objectId": "Mug|1|2", "receptacleObjectId": "Desk|4|5"},
            "high_idx": 3,
        },
    ]  # fmt: skip
    high = [
        ("GotoLocation", ["shelf"]), ("PickupObject", ["mug"]), ("GotoLocation", ["desk"]),
        ("PutObject", ["mug", "desk"]), ("NoOp", []),
    ]  # fmt: skip
    told = {
        "task_desc": f"Bring mug {number} to\nthe desk.",
        "high_descs": ["Go.", "Take it.", "Go.", "Put it."],
    }
    return {
        "turk_annotations": {"anns": [told]},
        "plan": {
            "high_pddl": [{"discrete_action": {"action": name, "args": args}} for name, args in high],
            "low_actions": low,
        },
    }


def alfred(count: int, spoilt: Spoilt = ()) -> Files:
    files = {}
    for n in range(count):
        content = trajectory(n)
        if n in spoilt:
            del content["plan"]
        files[f"json_2.1.0/train/pick-Mug-{n:04}/trial_{n}/traj_data.json"] = json.dumps(content).encode()
    return files | {"json_2.1.0/valid_seen/pick-Mug-1/trial_1/traj_data.json": b"{}"}


def _table(columns: list[str], rows: list[list[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([columns, *rows])
    return text.getvalue().encode()


def teach_table(count: int, spoilt: Spoilt = ()) -> Files:
    rows = [
        [n, f" take cup {n} <<TURN>>  which one?", "" if n in spoilt else "Pickup Cup -- Place  -- Pour Sink"]
        for n in range(count)
    ]
    return {"train_dh.csv": _table(["", "dialog", "gameplan_prediction"], rows)}


def teach(count: int, spoilt: Spoilt = ()) -> Files:
    def act(name: str, thing: str | None) -> dict[str, Any]:
        return {"action_name": name, "obj_interaction_action": int(thing is not None), "oid": thing}

    files = {"games/train/abc.game.json": b"{}"}
    for n in range(count):
        instance: dict[str, Any] = {
            "dialog_history_cleaned": [["Commander", f"take cup {n}"], ["Driver", "which one?"]],
            "driver_action_history": [act("Forward", None), act("Open", "Fridge|1|2|3")],
            "driver_actions_future": []
            if n in spoilt
            else [act("Pan Left", None), act("Pickup", "Cup|1|2|3")],
        }
        files[f"edh_instances/train/{n:04}.edh0.json"] = json.dumps(instance).encode()
    return files


REFUSALS = (
    "\n\nYour previous output action: 'dance\nsing' is not a valid action. Defaulted to action: go forward\n",
    "\n\nYour previous output did not contain a valid action. "
    "Defaulted to action: go forward\n\nObservation:\n",
)


def babyai_runs(count: int, spoilt: Spoilt = ()) -> Files:
    """Beside them a run of another game, which has no mission."""
    files = {
        "LLM/m/textworld/coin/coin_run_00.csv": b"Step\n",
        "LLM/m/textworld/coin/coin_run_00.json": b"{}",
    }
    for n in range(count):
        steps = [
            [0, "turn left", "", "a wall 2 steps left\na red ball 1 step left", 0, False],
            [1, ("dance\nsing", "")[n % 2], "", REFUSALS[n % 2] + "a wall 1 step left", 0, False],
            [2, "pick up", "", "You carry a red ball", 0, False],
            [3, "drop", "", "a red ball 1 step forward", 1, True],
        ]
        name = f"LLM/m/babyai/BabyAI-MixedTrainLocal-v0/pickup/BabyAI-MixedTrainLocal-v0/pickup_run_{n:02}"
        files[f"{name}.csv"] = _table(["Step", "Action", "Reasoning", "Observation", "Reward", "Done"], steps)
        if n not in spoilt:
            files[f"{name}.json"] = json.dumps({"mission": f"pick up ball {n}"}).encode()
    return files


def multi_agent(count: int, spoilt: Spoilt = ()) -> Files:
    files = {}
    for n in range(count):
        acts = [["Explore()", f"NavigateTo(Fire{n})"], ["Carry(Tim)", "Idle"], ["Done", "Done"]]
        memory = [
            ["[3, 3]", act, f"because {k}", f"subtask {k}", f"memory\n{k}"] for k, act in enumerate(acts)
        ]
        done = [[k, "", act, [True, False], 0.5, 0.5, False] for k, act in enumerate(acts)]
        columns = ["Step", "Pre-Action", "Action", "Success", "Coverage", "Transport Rate", "Finished"]
        folder = f"llamar/actions/2_agents/seed_{n:04}/scene_1"
        files[f"{folder}/memory.csv"] = _table(["Step", "Action", "Reason", "Subtask", "Memory"], memory)
        files[f"{folder}/trajectory.csv"] = _table(columns, done)[: 20 if n in spoilt else None]
    return files


def multi_news(count: int, spoilt: Spoilt = ()) -> Files:
    news = "Passage 1:\nIt rained {} times. NEWLINE_CHAR NEWLINE_CHAR Then not."
    items = [{"context": news.format(n), "answers": [f"Rain: {n}."]} for n in range(count)]
    return _json_lines("multi_news.jsonl", items, spoilt) | {"qasper.jsonl": b"{}\n"}


def niah(count: int, spoilt: Spoilt = ()) -> Files:
    items = [
        {"input": f"Memorize.\nKey a is {n}.\nWhat is key a? Key a is", "outputs": [str(n)]}
        for n in range(count)
    ]
    return _json_lines("niah_multikey_3/validation.jsonl", items, spoilt)


FORMS: dict[str, tuple[str, Callable[..., Files]]] = {
    "alpaca": ("alpaca", alpaca),
    "dolly": ("dolly", dolly),
    "dolly subset": ("dolly", dolly_subset),
    "self-instruct": ("self_instruct", self_instruct),
    "alfred": ("alfred", alfred),
    "teach": ("teach", teach),
    "teach table": ("teach", teach_table),
    "babyai runs": ("babyai_runs", babyai_runs),
    "multi-agent": ("multi_agent", multi_agent),
    "multi_news": ("multi_news", multi_news),
    "niah": ("niah_multikey_3", niah),
}
"""By the name of the form: the source it is of, and the files."""


def put(files: Files, folder: Path, *, packed: bool = False) -> Path:
    """The files in a folder, or in an archive in it."""
    folder.mkdir(parents=True, exist_ok=True)
    if not packed:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return folder
    with tarfile.open(folder / "all.tar.xz", "w:xz", preset=0) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return folder


def put_logs(folder: Path, count: int) -> Path:
    """Recorded episodes of one world."""
    said = [
        Segment("task", "agent 0: put the red ball next to the blue box"),
        Segment("plan", "0: search(red ball)", 1),
        *(Segment("message", f"room {n % 9 + 1}: nothing", n, 1) for n in range(2, 60)),
        Segment("plan", "0: wait()", 60),
        Segment("message", "room 3: red ball", 61, 1),
    ]
    head = "Write a plan.\n"
    logs = [
        Log("babyai-v1", 2, head, (*said, Segment("message", f"room 7: blue box {n}", 70, 1)), (30, 60))
        for n in range(count)
    ]
    write_logs(folder / "babyai-v1.1.xz", logs)
    return folder
