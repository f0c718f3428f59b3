"""Recording episodes as they really arise.

A world is driven by its perfect reader with a planner's faults thrown in: late answers, answers to a context
that was cut, no answer at all. So failures, refusals and stale plans are in the text as they will be later.
"""

from __future__ import annotations

import random

from brace.context import Segment, plan_template
from brace.errors import BraceError
from brace.planners.reference import Referenced
from brace.training.logs import Log
from brace.worlds import World

FAULTS = {"cut context": 0.12, "no answer": 0.05}
"""How often the planner is given only part of the context, or does not answer."""
LATENCIES_S = (0.0, 0.0, 0.0, 0.5, 1.0, 2.0, 4.0)


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
