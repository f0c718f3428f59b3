"""The proxy environment of the paper's controller sweep, in two versions.

`proxy-v1` follows the authors' code: while the planner thinks, nothing else ticks, and a call does not reset
the count of stuck steps. Together these make a livelock: once that count reaches 40, every call that takes a
step is followed by the same trigger, so the agent calls for ever and never moves.

`proxy-v2` corrects both: time passes for the conflict while the planner thinks, and a new plan starts a new
count. Everything else is the same, so the difference between them is the artefact.
"""

from __future__ import annotations

import random
from types import MappingProxyType

from brace.context import Segment, WordTokenizer
from brace.controller import Decision, Signals
from brace.plan import Arg, Plan, Skill, SkillCall, SkillSet
from brace.worlds.base import World, WorldInfo
from brace.worlds.following import check_plan

GOAL = 0.05
STALL = 0.005
"""A step that brings less than this is a stall."""
STUCK_LIMIT = 40
CONFLICT_CHANCE, CONFLICT_STEPS = 0.08, (20, 60)
FAILURE_CHANCE = 0.03
SPEED, SPREAD = 0.02, (0.7, 1.3)

_TOKENIZER = WordTokenizer()

SKILLS = SkillSet(
    [
        Skill("clear", (), "resolve the conflict in the way"),
        Skill(
            "advance",
            (
                Arg("mode", "name"),
                Arg("leg", "number"),
                Arg("reading", "number"),
                Arg("attempt", "number"),
                # How well the plan fits decides the speed, but two plans that differ only in it are the same.
                Arg("quality", "number", resolution=10.0),
            ),
            "go on",
        ),
    ]
)


class ProxyWorld(World):
    """A distance to close, conflicts that block it, and plans of varying quality."""

    info = WorldInfo(
        "a distance to close and conflicts in the way", "the controller sweep (simulated there too)"
    )
    dt = 0.05
    max_steps = 250
    skills = SKILLS
    names = MappingProxyType({"mode": ("full", "pruned")})

    def __init__(self, *, corrected: bool) -> None:
        self.id = "proxy-v2" if corrected else "proxy-v1"
        self._corrected = corrected
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Distance 1, no conflict, a perfect plan to begin with."""
        self._random = random.Random(seed)
        self._distance = 1.0
        self._at_plan = 1.0
        self._quality = 1.0
        self._conflict = 0
        self._stuck = 0
        self._step = 0
        self._told = -1
        self.told_tokens = 0
        self._events = Signals()
        self._word = "start"
        self._plan = Plan()
        self._stalls = 0
        self._deadlocks = 0

    def observe(self) -> list[Segment]:
        """About 900 tokens (template included) at the start, then one line of ten tokens a step."""
        if self._told == self._step:
            return []
        self._told = self._step
        news = background() if self._step == 0 else []
        gap, since = round(self._distance * 1e4), round((self._at_plan - self._distance) * 1e4)
        news.append(Segment("action", f"gap {gap} since {since} {self._word}", self._step))
        self.told_tokens += sum(_TOKENIZER.count(segment.render()) for segment in news)
        return news

    def events(self) -> Signals:
        """Failure, progress and deadlock of the last step."""
        return self._events

    def apply(self, plan: Plan) -> str | None:
        """Only `advance`, with or without `clear` before it, makes sense here."""
        problem = check_plan(plan, self.skills, self.names)
        if problem is not None:
            return problem
        calls = plan.of(0)
        if not calls or calls[-1].skill != "advance" or any(call.skill != "clear" for call in calls[:-1]):
            return "a plan is advance(…), or clear(); advance(…)"
        if len(calls) > 1:
            self._conflict = 0
        self._quality = float(calls[-1].args[-1])
        self._plan = Plan(((0, calls[-1:]),))
        self._at_plan = self._distance
        if self._corrected:
            self._stuck = 0
        return None

    def rest(self) -> Plan:
        """`advance` never ends."""
        return self._plan

    def stop(self) -> None:
        """Stand still until the next plan."""
        self._plan = Plan()
        self._quality = 0.0

    def default_plan(self) -> Plan:
        """Go on, at the speed of a perfect plan."""
        return Plan(((0, (SkillCall("advance", ("full", "20", "0", "0", "1.0")),)),))

    def line_for(self, plan: Plan, before: Plan) -> str:
        """The authors' contexts hold no plans."""
        return ""

    def decided(self, decision: Decision) -> None:
        """The authors let a plan go stale when a trigger is ignored."""
        self._quality *= {"cooldown": 0.98, "commit": 0.995}.get(decision.gate or "", 1.0)

    def step(self, *, hold: bool) -> None:
        """One control step; `hold` freezes the agent, and in v1 all else with it."""
        self._step += 1
        if hold:
            self._word = "held"
            self._stalls += 1
            # Neither v1 nor v2 counts a step in which the agent was not allowed to move as stuck.
            self._events = Signals(deadlock=self._stuck >= STUCK_LIMIT)
            if self._corrected and self._conflict:
                self._conflict -= 1
        else:
            self._move()
        self._deadlocks += self._stuck >= STUCK_LIMIT

    def _move(self) -> None:
        draw = self._random
        moved, failed = 0.0, False
        if not self._conflict and draw.random() < CONFLICT_CHANCE:
            self._conflict = draw.randint(*CONFLICT_STEPS)
        blocked = self._conflict > 0
        if blocked:
            self._conflict -= 1
        elif draw.random() < FAILURE_CHANCE:
            failed = True
        else:
            moved = SPEED * self._quality * draw.uniform(*SPREAD)
        self._distance -= moved
        stalled = moved < STALL
        self._stuck = self._stuck + 1 if stalled else 0
        self._stalls += stalled
        self._word = "block" if blocked else "fail" if failed else "ok"
        self._events = Signals(
            failed=failed, succeeded=not failed and not blocked, progress=moved,
            deadlock=self._stuck >= STUCK_LIMIT,
        )  # fmt: skip

    def finished(self) -> bool:
        """There."""
        return self.success()

    def success(self) -> bool:
        """Within the goal's distance."""
        return self._distance <= GOAL

    def figures(self) -> dict[str, float]:
        """As in the paper's table: steps in deadlock, and steps without progress, holds included."""
        return {"deadlocks": float(self._deadlocks), "stall": float(self._stalls)}


def background() -> list[Segment]:
    """What the agent knows from the start: a task that may never be cut, and notes that may."""
    news = [
        Segment("task", "bring the cart from the dock to the press; close the gap to 500 or less"),
        Segment("goal", "gap 500 at the press"),
        Segment("safety", "never move while a person is in the lane; stop at the yellow line and wait"),
        Segment(
            "task",
            "an action line tells the gap, what the plan has closed of it, and how the step went; clear() "
            "asks the other cart to move",
        ),
    ]
    places = ("dock", "ramp", "lane", "gate", "shelf", "press", "bay")
    for number in range(33):
        here, there = places[number % 7], places[(number * 3 + 1) % 7]
        text = (
            f"from {here} {number} to {there} {number + 2} it is {3 + number % 5} m; mind cart {number % 4}"
        )
        news.append(Segment("message", text, agent=1 + number % 3))
    return news


class ProxyV1(ProxyWorld):
    """As the authors coded it, livelock included."""

    def __init__(self) -> None:
        super().__init__(corrected=False)


class ProxyV2(ProxyWorld):
    """Without the livelock."""

    def __init__(self) -> None:
        super().__init__(corrected=True)
