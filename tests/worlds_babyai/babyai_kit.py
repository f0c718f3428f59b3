"""Episodes without a loop: a planner that answers at once, whenever something happens."""

from __future__ import annotations

from collections.abc import Callable

from brace.context import ContextBuffer, Segment, WordTokenizer, plan_template
from brace.loop.core import tell_plan
from brace.plan import Plan
from brace.worlds.babyai import BabyAIWorld

Planner = Callable[[str], Plan]


class Play:
    """One episode, step by step."""

    def __init__(self, world: BabyAIWorld, seed: int, planner: Planner) -> None:
        world.reset(seed)
        self.world, self.planner = world, planner
        self.buffer = ContextBuffer(WordTokenizer())
        self.news: list[Segment] = []
        self.steps = self.refused = 0

    def prompt(self) -> str:
        return plan_template(self.world.skills.describe()).render(self.buffer.lines())

    def step(self, *, hold: bool = False) -> None:
        self.news = self.world.observe()
        self.buffer.extend(self.news)
        events = self.world.events()
        if self.world.rest().is_empty or events.failed or events.deadlock or events.divergence:
            refusal, told = tell_plan(self.world, self.planner(self.prompt()), self.steps)
            self.buffer.extend(told)
            self.refused += refusal is not None
        self.world.step(hold=hold)
        self.steps += 1

    def run(self) -> bool:
        while not self.world.finished() and self.steps < self.world.max_steps:
            self.step()
        return self.world.success()


def said(segments: list[Segment], kind: str) -> list[str]:
    return [segment.text for segment in segments if segment.kind == kind]
