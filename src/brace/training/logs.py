"""Episodes as they really arise, written down line by line: the raw material of planner training.

A log is everything a world said in one episode, driven by its perfect reader with the planner's faults thrown
in: late answers, answers to a context that was cut, no answer at all. So failures, refusals and stale plans
are in the text as they will be later.
"""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brace.context import Segment, plan_template
from brace.context.segments import HEAD_KINDS
from brace.errors import BraceError
from brace.planners.reference import Referenced
from brace.worlds import World

FAULTS = {"cut context": 0.12, "no answer": 0.05}
"""How often the planner is given only part of the context, or does not answer."""
LATENCIES_S = (0.0, 0.0, 0.0, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True)
class Log:
    """One episode's text."""

    world: str
    agents: int
    head: str
    """The prompt's beginning: what to do, and the skills."""
    segments: tuple[Segment, ...]
    """In the order in which they were said."""
    asked: tuple[int, ...]
    """After how many segments a plan was wanted."""

    def lines(self, upto: int) -> list[str]:
        """The context's lines after so many segments, as a prompt has them."""
        said = self.segments[:upto]
        head = [segment.render() for segment in said if segment.kind in HEAD_KINDS]
        return head + [segment.render() for segment in said if segment.kind not in HEAD_KINDS]


def record_log(world: World, seed: int) -> Log:
    """Play one episode and keep its text."""
    if not isinstance(world, Referenced):
        raise BraceError(f"world {world.id!r} has no reader to learn from")
    draw = random.Random(seed)
    hold = draw.random() < 0.5
    delay = round(draw.choice(LATENCIES_S) / world.dt)
    template = plan_template(world.skills.describe())
    world.reset(seed)
    segments: list[Segment] = []
    asked: list[int] = []
    waiting: tuple[int, str] | None = None
    for t in range(world.max_steps):
        if world.finished():
            break
        segments += world.observe()
        if waiting is not None and t >= waiting[0]:
            world.apply(world.read(waiting[1]))
            waiting = None
        if waiting is None and _wanted(world):
            asked.append(len(segments))
            lines = Log(world.id, 0, "", tuple(segments), ()).lines(len(segments))
            prompt = _faulty("".join(lines), draw)
            if prompt is not None:
                waiting = (t + delay, template.head + prompt + template.foot)
                if delay == 0:
                    world.apply(world.read(waiting[1]))
                    waiting = None
        world.step(hold=hold and waiting is not None)
    return Log(world.id, world.skills.agents, template.head, tuple(segments), tuple(dict.fromkeys(asked)))


def _wanted(world: World) -> bool:
    events = world.events()
    loud = events.failed or events.hazard or events.goal_changed or events.deadlock or events.divergence
    return bool(loud) or world.rest().is_empty


def _faulty(prompt: str, draw: random.Random) -> str | None:
    """The context as the planner gets it, or None if it does not answer."""
    chance = draw.random()
    if chance < FAULTS["no answer"]:
        return None
    if chance < FAULTS["no answer"] + FAULTS["cut context"]:
        keep = draw.uniform(0.2, 0.9)
        return "".join(line for line in prompt.splitlines(keepends=True) if draw.random() < keep)
    return prompt


def write_logs(path: Path, logs: Iterable[Log]) -> int:
    """Append logs to an .xz file; how many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with lzma.open(path, "at", encoding="utf-8", preset=6) as file:
        for log in logs:
            file.write(json.dumps(_to_plain(log), separators=(",", ":")) + "\n")
            count += 1
    return count


def read_logs(path: Path) -> Iterator[Log]:
    """The logs of a file; an unfinished last line (an interrupted recording) is left out."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        try:
            for line in file:
                yield _from_plain(json.loads(line))
        except (EOFError, json.JSONDecodeError):
            return


def _to_plain(log: Log) -> dict[str, Any]:
    segments = [[s.kind, s.text, s.step, s.agent] for s in log.segments]
    return {
        "world": log.world,
        "agents": log.agents,
        "head": log.head,
        "segments": segments,
        "asked": log.asked,
    }


def _from_plain(plain: Mapping[str, Any]) -> Log:
    segments = tuple(Segment(kind, text, step, agent) for kind, text, step, agent in plain["segments"])
    return Log(plain["world"], plain["agents"], plain["head"], segments, tuple(plain["asked"]))
