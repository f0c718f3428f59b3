"""A fake world for loop tests: a robot on a line, with events that the test schedules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brace.context import Segment
from brace.controller import Signals
from brace.plan import Arg, Plan, Skill, SkillSet
from brace.worlds import World

SKILLS = SkillSet([Skill("goto", (Arg("place", "number"),)), Skill("wait")])


class FakeLine(World):
    """Starts at 0 and must reach `goal`. A goto moves one place a step and ends when it is there."""

    id = "fake-line-v1"
    skills = SKILLS

    def __init__(
        self,
        goal: int = 5,
        max_steps: int = 40,
        dt: float = 0.05,
        events: Mapping[int, Mapping[str, Any]] | None = None,
        refuse: str | None = None,
        raise_at: int | None = None,
    ) -> None:
        self.goal, self.max_steps, self.dt = goal, max_steps, dt
        self._scheduled, self._refuse, self._raise_at = events or {}, refuse, raise_at
        self.log: list[str] = []
        self.reset(0)

    def reset(self, seed: int) -> None:
        self.seed, self.at, self.t, self.held, self.stops = seed, 0, 0, 0, 0
        self._plan, self._done = Plan(), 0
        self.log.clear()

    def observe(self) -> list[Segment]:
        news = [Segment("task", f"reach {self.goal}")] if self.t == 0 else []
        return [*news, Segment("observation", f"at {self.at}", self.t)]

    def events(self) -> Signals:
        return Signals(**self._scheduled.get(self.t, {}))

    def apply(self, plan: Plan) -> str | None:
        if self._refuse is not None:
            return self._refuse
        self._plan, self._done = plan, 0
        self.log.append(f"{self.t}: {plan}")
        return None

    def rest(self) -> Plan:
        return self._plan.rest({0: self._done})

    def stop(self) -> None:
        self._plan, self._done = Plan(), 0
        self.stops += 1

    def suppressed(self, reason: str) -> None:
        self.log.append(f"{self.t}: suppressed by {reason}")

    def step(self, *, hold: bool) -> None:
        if self.t == self._raise_at:
            raise RuntimeError("the simulator exploded")
        self.t += 1
        if hold:
            self.held += 1
            return
        todo = self.rest().of(0)
        if todo and todo[0].skill == "goto":
            target = int(float(todo[0].args[0]))
            self.at += (target > self.at) - (target < self.at)
            self._done += self.at == target

    def finished(self) -> bool:
        return self.success()

    def success(self) -> bool:
        return self.at == self.goal

    def figures(self) -> dict[str, float]:
        return {"held": float(self.held)}
