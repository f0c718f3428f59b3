"""Driving a world by hand, as the loop does with zero latency."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from brace.context import Segment
from brace.loop.core import tell_plan
from brace.plan import Plan
from brace.worlds.arms.world import ArmsWorld

HEAD_KINDS = ("task", "goal", "safety")


def run(world: ArmsWorld, steps: int, *, hold: bool = False) -> Iterator[Segment]:
    """Step on and yield what is said."""
    for _ in range(steps):
        yield from world.observe()
        if world.finished():
            return
        world.step(hold=hold)
    yield from world.observe()


def texts(world: ArmsWorld, steps: int, *, hold: bool = False) -> list[str]:
    """What is said meanwhile."""
    return [segment.text for segment in run(world, steps, hold=hold)]


def until(world: ArmsWorld, text: str, steps: int = 200) -> Segment:
    """Step on until a line has this text in it."""
    for segment in run(world, steps):
        if text in segment.text:
            return segment
    raise AssertionError(f"{text!r} was not said within {steps} steps")


def read_through(world: ArmsWorld, seed: int, read: Callable[[str], Plan]) -> str:
    """A whole episode with a reader that is asked at every trigger; what it read last."""
    world.reset(seed)
    lines: list[Segment] = []
    prompt = ""
    while world.now < world.max_steps and not world.finished():
        lines += world.observe()
        events = world.events()
        wanted = events.failed or events.divergence > 0 or events.goal_changed or events.deadlock
        if wanted or world.rest().is_empty:
            head = [line for line in lines if line.kind in HEAD_KINDS]
            rest = [line for line in lines if line.kind not in HEAD_KINDS]
            prompt = "".join(line.render() for line in [*head, *rest])
            lines += tell_plan(world, read(prompt), world.now)[1]
        world.step(hold=False)
    return prompt
