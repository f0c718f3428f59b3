"""What the worlds with two arms share: execution of skills, reports, and the bookkeeping."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from brace.context import Segment
from brace.context.segments import Kind
from brace.controller import Signals
from brace.options import check_choices
from brace.plan import Arg, Plan, Skill, SkillCall
from brace.worlds.arms.executor import ARMS, Arm, Motion, SkillFailedError
from brace.worlds.arms.simulator import CONTROL_FREQUENCY, Simulator
from brace.worlds.arms.surroundings import (
    REPORT_STEPS,
    Announcement,
    Camera,
    Sighting,
    Trouble,
    draw_bumps,
    in_millimetres,
)
from brace.worlds.base import WorldInfo
from brace.worlds.following import SkillWorld

if TYPE_CHECKING:
    from brace.worlds.base import Frame

Box = dict[str, tuple[int, int]]
"""The range of each of a skill's numbers, by name."""

# Plans that differ by less than the resolution count as the same: sightings jitter by a millimetre.
PLACE_ARGS = tuple(Arg(axis, "number", resolution=10) for axis in ("x", "y", "z"))
"""A place in mm, as skills take it."""
GRASP = Skill("grasp", (), "close the gripper")
SYNC = Skill("sync", (), "wait until the other arm is at its sync too")
WAIT = Skill("wait", (), "wait half a second")
SUCCESS_STEPS = 10
"""The goal must last this long: half a second."""
IDLE_STEPS = 20
"""An arm that stands idle this long after a failure is stuck."""
SYNC_STEPS = 200
"""So long an arm waits for the other."""
WAIT_STEPS = 10
_ENDED = object()
"""What a motion that has ended gives instead of a step."""


def arms_info(summary: str, row: str) -> WorldInfo:
    """What all worlds of this folder have in common."""
    return WorldInfo(
        summary, f"manipulation: {row} (robosuite)", real=True, extra="arms", modules=("robosuite", "mujoco")
    )


def outside(box: Box, call: SkillCall) -> str | None:
    """Which of a skill's numbers, in the box's order, is out of its range, or None."""
    for (name, (low, high)), value in zip(box.items(), call.args, strict=False):
        if not low <= float(value) <= high:
            return f"{call}: {name} is {low} to {high}"
    return None


@dataclass(eq=False)
class ArmsWorld(SkillWorld):
    """Two Panda arms, numbered 0 and 1, face each other over a table.

    A concrete world says what is placed where, what its skills do, what the camera sees, what the operator
    announces, and when the task is done.
    """

    dt = 1.0 / CONTROL_FREQUENCY
    scene: ClassVar[tuple[str, str]]
    """robosuite's task, and the camera that pictures are taken with."""
    model_seed: ClassVar[int] = 0
    """robosuite draws the sizes of its things from it."""
    angle: ClassVar[tuple[str, int]] = ("yaw", 180)
    """What the camera calls the angle it sees, and after how many degrees a thing looks the same again."""
    steps: ClassVar[Mapping[str, int]]
    """By difficulty: when an episode ends."""
    troubles: ClassVar[Mapping[str, Trouble]]
    """By disturbance: how rough the surroundings are."""

    difficulty: Literal["easy", "normal", "hard"] = "normal"
    """How awkwardly things lie, how often the operator changes what was asked for, how short the time is."""
    disturbance: Literal["none", "normal", "strong"] = "normal"
    """How often and how far others push things, and how often a grip slips."""

    def __post_init__(self) -> None:
        check_choices(self, f"world {self.id!r}")
        super().__init__()
        self.max_steps = self.steps[self.difficulty]
        self._trouble = self.troubles.get(self.disturbance)
        self.simulator = Simulator(*self.scene, self.info, self.id, self.model_seed)
        self.arms = (Arm(0, self.simulator), Arm(1, self.simulator))
        self.reset(0)

    # What a concrete world adds.

    @abstractmethod
    def place(self) -> None:
        """Draw and set what this episode begins with."""

    @abstractmethod
    def briefing(self) -> list[Segment]:
        """Task, goal and safety lines."""

    @abstractmethod
    def objection(self, arm: int, call: SkillCall) -> str | None:
        """What speaks against a skill in an arm's line."""

    def motion(self, arm: Arm, call: SkillCall) -> Motion:
        """What a skill makes an arm do; here: wait, for the other arm or for half a second."""
        for _ in range(SYNC_STEPS if call.skill == "sync" else WAIT_STEPS):
            yield
        # That both have come is noticed in `_execute`.
        if call.skill == "sync":
            raise SkillFailedError("the other arm did not come")

    @abstractmethod
    def sightings(self) -> dict[str, Sighting]:
        """What the camera can see now, by name."""

    @abstractmethod
    def contradicts(self, name: str, seen: Sighting) -> bool:
        """Whether what is left of the plan relies on something else than what is now seen of this."""

    @abstractmethod
    def disturb(self) -> None:
        """What the surroundings do in this step."""

    @abstractmethod
    def reached(self) -> bool:
        """Whether the goal holds at this moment."""

    def lost(self, arm: Arm) -> None:
        """An arm lost what it held; its failure has been reported."""

    # The contract.

    def reset(self, seed: int) -> None:
        """Begin an episode: arms at home, things placed, the operator's announcements drawn."""
        self._plan, self._done = Plan(), {}
        self.seed = seed
        self.now = 0
        self.news: list[Segment] = []
        self.announcements: list[Announcement] = []
        self._camera = Camera(self.stream(1), *self.angle)
        self._running: list[tuple[SkillCall, Motion] | None] = [None, None]
        self._reflexes: list[Motion | None] = [None, None]
        self._states, self._states_at = ["", ""], [0, 0]
        self._idle, self._after_failure = [0, 0], [False, False]
        self._held_for = 0
        self._counts = dict.fromkeys(("drops", "bumps", "refusals", "collisions"), 0)
        self._path = 0.0
        self._quiet()
        # Before things are placed: peg-in-hole takes its calibration from the arms at home.
        self.simulator.reset(self.stream(0))
        self.place()
        self._bumps = draw_bumps(self._trouble, self.stream(3), self.max_steps, self.dt)
        for arm in self.arms:
            arm.reset()
        self.news += self.briefing()
        self._announce()
        # A height that is asked for at once is no change.
        self._quiet()
        self._look()
        self._report_arms()

    def _quiet(self) -> None:
        self._failed = self._succeeded = self._goal_changed = False
        self._divergence = 0.0

    def stream(self, number: int) -> np.random.Generator:
        """Random numbers of their own, so that no draw depends on what the plan does."""
        return np.random.default_rng([self.seed, number])

    def observe(self) -> list[Segment]:
        """The lines written since the last call."""
        news, self.news = self.news, []
        return news

    def events(self) -> Signals:
        """What the last step brought."""
        # An arm without a skill may just be done, so it is stuck only after a failure.
        stuck = any(
            after and idle >= IDLE_STEPS for after, idle in zip(self._after_failure, self._idle, strict=True)
        )
        return Signals(
            failed=self._failed, succeeded=self._succeeded, deadlock=stuck,
            divergence=self._divergence, goal_changed=self._goal_changed,
        )  # fmt: skip

    def apply(self, plan: Plan) -> str | None:
        """Take a plan, or refuse it and count that."""
        problem = super().apply(plan)
        self._counts["refusals"] += problem is not None
        return problem

    def refuse(self, plan: Plan) -> str | None:
        """What speaks against the first skill that something speaks against."""
        for number, calls in plan.steps:
            for call in calls:
                problem = self.objection(number, call)
                if problem is not None:
                    return f"arm {number}, {problem}"
        return None

    def taken(self) -> None:
        """Arms stop for a new plan, but a skill that goes on in it is not interrupted."""
        for arm in self.arms:
            running, call = self._running[arm.number], self.current(arm.number)
            if running is not None and running[0] != call:
                self._running[arm.number] = None
                arm.stop()
            self._reflexes[arm.number] = None
            self._idle[arm.number] = 0
            self._after_failure[arm.number] = False

    def step(self, *, hold: bool) -> None:
        """Let 50 ms pass. While holding, the arms stand still, and all else goes on."""
        self.now += 1
        self._quiet()
        self._announce()
        self.disturb()
        if not hold:
            self._execute()
        before = [arm.pose.position for arm in self.arms]
        self.simulator.step([(arm.told, arm.grip) for arm in self.arms])
        self._path += sum(
            float(np.linalg.norm(arm.pose.position - old)) for arm, old in zip(self.arms, before, strict=True)
        )
        self._counts["collisions"] += self.simulator.has_collision()
        # Also while holding: a thing can slide out of fingers that do nothing.
        for arm in self.arms:
            if arm.holding and not arm.feels_something():
                self.dropped(arm, "lost its grip")
                self.lost(arm)
        self._look()
        self._report_arms()
        self._held_for = self._held_for + 1 if self.reached() else 0

    def success(self) -> bool:
        """The goal has held for half a second."""
        return self._held_for >= SUCCESS_STEPS

    def figures(self) -> dict[str, float]:
        """Drops, bumps, plans refused, steps in which an arm touched the other or the table, way made."""
        return {name: float(count) for name, count in self._counts.items()} | {"path_mm": self._path * 1e3}

    def frame(self) -> Frame:
        """What a camera in front of the table sees."""
        return self.simulator.frame()

    def close(self) -> None:
        """Give the simulator back."""
        self.simulator.close()

    # The inside.

    def tell(self, kind: Kind, text: str, agent: int | None = None) -> None:
        """Write a line."""
        self.news.append(Segment(kind, text, self.now, agent))

    def fail(self, arm: Arm, why: str) -> None:
        """An arm's skill failed: drop the rest of its line and say why."""
        call = self.current(arm.number)
        self._running[arm.number] = self._reflexes[arm.number] = None
        self.give_up(arm.number)
        self._after_failure[arm.number] = True
        self._failed = True
        self.tell("failure", f"{call.skill} failed: {why}" if call is not None else why, arm.number)

    def dropped(self, arm: Arm, why: str) -> None:
        """An arm lost what it held."""
        self._counts["drops"] += 1
        self.let_go(arm, why)

    def let_go(self, arm: Arm, why: str) -> None:
        """Open the fingers at once; the skill under way fails when the arm has backed off."""
        arm.let_go()
        call = self.current(arm.number)
        if call is None:
            self.fail(arm, why)
        else:
            self._running[arm.number] = None
            self._reflexes[arm.number] = arm.back_off(why)

    def bumped(self) -> None:
        """The surroundings moved something."""
        self._counts["bumps"] += 1

    def goal_changed(self) -> None:
        """The operator asks for something else than before."""
        self._goal_changed = True

    def diverged(self) -> None:
        """What the plan relies on no longer holds."""
        self._divergence = 1.0

    def next_call(self, arm: int, skill: str) -> SkillCall | None:
        """The next such skill in what is left of an arm's line."""
        return next((call for call in self.rest().of(arm) if call.skill == skill), None)

    @property
    def corrections(self) -> float:
        """How likely the operator changes what was asked for."""
        return {"easy": 0.0, "normal": 0.4, "hard": 0.7}[self.difficulty]

    @property
    def bump_is_due(self) -> bool:
        """Somebody is about to bump into something, if nothing keeps him from it."""
        return bool(self._bumps) and self._bumps[0].step <= self.now

    def stay(self) -> Motion:
        """Stand still for as long as the goal must last."""
        for _ in range(SUCCESS_STEPS):
            yield

    def _announce(self) -> None:
        for said in self.announcements:
            if said.step == self.now:
                said.effect()
                if said.text:
                    self.tell("message", said.text)

    def _execute(self) -> None:
        calls = [self.current(number) for number in ARMS]
        # An arm that is backing off has not come, whatever its line says.
        met = self._reflexes == [None, None] and all(
            call is not None and call.skill == "sync" for call in calls
        )
        for arm, call in zip(self.arms, calls, strict=True):
            number = arm.number
            if call is None:
                self._idle[number] += 1
                continue
            self._idle[number] = 0
            running = self._running[number] or (call, self.motion(arm, call))
            self._running[number] = running
            # A reflex always ends with an error: it cannot finish the skill in whose place it runs.
            motion = self._reflexes[number] or running[1]
            try:
                if met or next(motion, _ENDED) is _ENDED:
                    self._running[number] = None
                    self.finish(number)
                    self._succeeded = True
                    self.tell("action", f"{call} done", number)
            except SkillFailedError as error:
                self.fail(arm, str(error))

    def _look(self) -> None:
        things = self.sightings()
        for name, line, moved in self._camera.look(self.now, things):
            self.tell("observation", line)
            if moved and self.contradicts(name, things[name]):
                self.diverged()

    def _report_arms(self) -> None:
        for arm in self.arms:
            number = arm.number
            if arm.gripper != self._states[number] or self.now - self._states_at[number] >= REPORT_STEPS:
                x, y, z = in_millimetres(arm.pose.position)
                state = f" gripper {arm.gripper}" if self.simulator.has_fingers else ""
                self.tell("observation", f"at {x} {y} {z}{state}", number)
                self._states[number], self._states_at[number] = arm.gripper, self.now
