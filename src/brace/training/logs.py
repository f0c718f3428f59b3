"""Logs: everything a world said in one episode, line by line. The raw material of planner training.

To record one, a world is driven by its perfect reader with a planner's faults thrown in: late answers,
answers to a context that was cut, no answer at all. So failures, refusals and stale plans are in the text as
they will be later.
"""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brace.context import Segment, plan_template
from brace.context.segments import HEAD_KINDS
from brace.errors import BraceError
from brace.loop.core import tell_plan
from brace.planners.reference import Referenced
from brace.registry import worlds
from brace.worlds import World

# Here and in LATENCIES_S a value that stands more often is drawn more often.
TEAMS = (1, 2, 3, 4, 4, 5, 6, 7, 8)
NO_ANSWER, CUT_CONTEXT = 0.05, 0.12
"""How often the planner does not answer, or is given only part of the context."""
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


def varied_options(name: str, draw: random.Random) -> dict[str, Any]:
    """Random settings of a world, normal ones more often."""
    takes = {option.name for option in worlds.options(name)}
    options: dict[str, Any] = {}
    if "difficulty" in takes:
        options["difficulty"] = draw.choice(("easy", "normal", "normal", "hard"))
    if "disturbance" in takes:
        options["disturbance"] = draw.choice(("none", "normal", "normal", "strong"))
    if "agents" in takes:
        options["agents"] = draw.choice(TEAMS)
    return options


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
    told: list[Segment] = []
    asked: list[int] = []
    waiting: tuple[int, str] | None = None
    for t in range(world.max_steps):
        if world.finished():
            break
        # What became of a plan is read from the step after it on, before what that step brought.
        segments += [*told, *world.observe()]
        told = []
        if waiting is not None and t >= waiting[0]:
            told = tell_plan(world, world.read(waiting[1]), t)[1]
            waiting = None
        if waiting is None and _wants_plan(world):
            asked.append(len(segments))
            lines = Log(world.id, 0, "", tuple(segments), ()).lines(len(segments))
            prompt = _faulty("".join(lines), draw)
            if prompt is not None:
                waiting = (t + delay, template.head + prompt + template.foot)
                if delay == 0:
                    told += tell_plan(world, world.read(waiting[1]), t)[1]
                    waiting = None
        world.step(hold=hold and waiting is not None)
    # A plan may be wanted again before anything more is said: that is the same context.
    return Log(world.id, world.skills.agents, template.head, tuple(segments), tuple(dict.fromkeys(asked)))


def _wants_plan(world: World) -> bool:
    events = world.events()
    loud = events.failed or events.hazard or events.goal_changed or events.deadlock or events.divergence
    return bool(loud) or world.rest().is_empty


def _faulty(prompt: str, draw: random.Random) -> str | None:
    """The context as the planner gets it, or None if it does not answer."""
    chance = draw.random()
    if chance < NO_ANSWER:
        return None
    if chance < NO_ANSWER + CUT_CONTEXT:
        keep = draw.uniform(0.2, 0.9)
        return "".join(line for line in prompt.splitlines(keepends=True) if draw.random() < keep)
    return prompt


def write_logs(path: Path, logs: Iterable[Log]) -> int:
    """Append logs to an .xz file; how many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    # What is appended is a stream of its own: readers of .xz take all of them as one text.
    with lzma.open(path, "at", encoding="utf-8", preset=6) as file:
        for log in logs:
            plain = {
                "world": log.world,
                "agents": log.agents,
                "head": log.head,
                "segments": [[s.kind, s.text, s.step, s.agent] for s in log.segments],
                "asked": log.asked,
            }
            file.write(json.dumps(plain, separators=(",", ":")) + "\n")
            count += 1
    return count


def read_logs(path: Path) -> Iterator[Log]:
    """The logs of a file; an unfinished last line (an interrupted recording) is left out."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        try:
            for line in file:
                plain = json.loads(line)
                said = tuple(Segment(*fields) for fields in plain["segments"])
                yield Log(plain["world"], plain["agents"], plain["head"], said, tuple(plain["asked"]))
        except (EOFError, json.JSONDecodeError):
            return
