"""Arm 0 picks a hammer up and presents it, arm 1 takes it over (robosuite's TwoArmHandover)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from brace.context import Segment
from brace.plan import Arg, Plan, Skill, SkillCall, SkillSet
from brace.registry import worlds
from brace.worlds.arms.executor import FAST, SLOW, Arm, Motion, SkillFailedError
from brace.worlds.arms.geometry import Matrix, Pose, Vector, about_z, quaternion_of, wrapped
from brace.worlds.arms.reading import handover_plan, read_handover
from brace.worlds.arms.simulator import Simulator
from brace.worlds.arms.trouble import Bump, Trouble, draw_bumps, draw_slips, kept_within
from brace.worlds.arms.world import (
    Announcement, ArmsWorld, Difficulty, Disturbance, Sighting, arms_info, check_options, in_millimetres,
)  # fmt: skip

_PLACE = (
    Arg("x", "number", resolution=10), Arg("y", "number", resolution=10), Arg("z", "number", resolution=10),
)  # fmt: skip
SKILLS = SkillSet(
    [
        Skill(
            "reach", (*_PLACE, Arg("yaw", "number", resolution=10)),
            "bring the open gripper to a place, in mm and degrees",
        ),
        Skill("grasp", (), "close the gripper"),
        Skill("present", _PLACE, "raise what is held and hold it out at a place"),
        Skill("sync", (), "wait until the other arm is at its sync too"),
        Skill("release", (), "open the gripper and go up"),
        Skill("wait", (), "wait half a second"),
    ],
    agents=2,
)  # fmt: skip

MODEL_SEED = 1
"""robosuite draws the hammer's size; this one's handle is 24 cm long."""
TABLE_Y, TABLE_Z = -0.45, 0.80
GRIPS = ("p", "q")
GRIP_AT = {"p": 0.02, "q": 0.06}
"""Metres from the head to where it may be gripped."""
TAIL_AT = 0.02
"""Metres from the handle's end to where arm 1 takes it."""
APPROACH, CLEAR = 0.13, 0.06
NEAR_TAIL_MM = 60
"""Arm 1 this near to the tail is about to take it."""
PUSH_FREE_MM = 180
"""Nobody leans against an arm while the other is this near."""
TILT = np.radians(45.0)
"""Arm 1 comes at the handle from above and behind, at this angle."""
WRIST = 115.0
PRESENT_SPEED = 0.2
PLACES: dict[str, tuple[int, int, int]] = {
    "a": (-140, -100, 1100),
    "b": (0, -100, 1100),
    "c": (140, -100, 1100),
}
"""About where the hammer is handed over, in mm; each episode shifts them a little."""
PLACE_SHIFT = 20
AT_PLACE = 0.08
"""A hammer held this near to a place (metres, level) is there."""
BOX_X = (-260, 260)
BOX_Y, BOX_Z = ((-640, 0), (-120, 320)), ((810, 1250), (900, 1250))
"""Where each arm can reach, in mm."""
LAYOUT: Sighting = (0, -450, 819, 0)
"""Where a grip usually is."""


@dataclass(frozen=True)
class _Level:
    yaw: float
    """How far the hammer's handle may point away from arm 1 (degrees)."""
    corrections: float
    """How likely the operator changes the place or the grip later."""
    max_steps: int


LEVELS: dict[Difficulty, _Level] = {
    "easy": _Level(60.0, 0.0, 640),
    "normal": _Level(90.0, 0.4, 540),
    "hard": _Level(105.0, 0.7, 480),
}
TROUBLES: dict[Disturbance, Trouble | None] = {
    "none": None,
    "normal": Trouble((0.5, 1.5), (0.04, 0.08), (10.0, 30.0), (0.7, 0.3)),
    "strong": Trouble((0.4, 1.0), (0.05, 0.09), (15.0, 40.0), (0.4, 0.4, 0.2)),
}


@worlds.register("handover-v1")
class HandoverWorld(ArmsWorld):
    """A hammer that others bump into, one oily grip, a place that the goal names, and a push while it is held out."""

    info = arms_info("one arm picks up a hammer and hands it to the other", "two-arm handover")
    id = "handover-v1"
    skills = SKILLS
    period = 360

    def __init__(self, *, difficulty: Difficulty = "normal", disturbance: Disturbance = "normal") -> None:
        check_options(self.id, difficulty, disturbance)
        self._level, self._trouble = LEVELS[difficulty], TROUBLES[disturbance]
        self.max_steps = self._level.max_steps
        super().__init__(
            Simulator("TwoArmHandover", "agentview", self.info, self.id, MODEL_SEED), disturbance
        )
        self.reset(0)

    # How an episode begins.

    def place(self) -> None:
        """The hammer, the oily grip, where it is to be handed over, and all that will happen."""
        draw = self.stream(2)
        self._oily = str(draw.choice(GRIPS))
        self._greasy = False
        self._presented = ""
        self._places = {
            name: tuple(
                int(value) for value in np.array(place) + draw.integers(-PLACE_SHIFT, PLACE_SHIFT + 1, 3)
            )
            for name, place in PLACES.items()
        }
        self._goal, later = (str(name) for name in draw.choice(tuple(PLACES), 2, replace=False))
        x, y = draw.uniform((-0.10, -0.05), (0.10, 0.05))
        self._lay(x, TABLE_Y + y, float(draw.uniform(-self._level.yaw, self._level.yaw)))
        self.announcements = self._announcements(draw, later)
        self._bumps = draw_bumps(self._trouble, self.stream(3), self.max_steps, self.dt)
        self._slips = draw_slips(self._trouble, self.stream(4), 0.015, 0.03)

    def _lay(self, x: float, y: float, yaw: float) -> None:
        """Lay the hammer flat, its handle's end pointing to arm 1, turned by `yaw`."""
        tail = about_z(yaw) @ np.array([0.0, 1.0, 0.0])
        rotation = np.stack([np.cross([0.0, 0.0, 1.0], -tail), [0.0, 0.0, 1.0], -tail], axis=1)
        hammer = self.simulator.env.hammer
        height = TABLE_Z + float(hammer.head_halfsize)
        self.simulator.place(str(hammer.joints[0]), np.array([x, y, height]), quaternion_of(rotation))

    def _announcements(self, draw: np.random.Generator, later: str) -> list[Announcement]:
        oily_at, change_at, place_at = draw.integers((-15, 5, 60), (25, 60, 200))
        said = [
            Announcement(
                max(0, int(oily_at)), f"grip {self._oily} is oily", partial(self._say_oily, self._oily)
            )
        ]
        if draw.random() < self._level.corrections:
            clean, oily = self._oily, GRIPS[1 - GRIPS.index(self._oily)]
            text = f"grip {clean} is clean again and grip {oily} is oily"
            said.append(Announcement(int(change_at), text, partial(self._say_oily, oily)))
        if draw.random() < self._level.corrections:
            said.append(Announcement(int(place_at), "", partial(self._ask_for, later)))
        return said

    def _say_oily(self, grip: str) -> None:
        self._oily = grip
        if self._misses(0, self._grips()[self._clean]):
            self.diverged()

    def _ask_for(self, place: str) -> None:
        self._goal = place
        self.tell("goal", f"hand the hammer over at place {place}")
        self.goal_changed()

    def briefing(self) -> list[Segment]:
        """What holds throughout; the goal may be replaced later."""
        task = "arm 0 picks the hammer up at a clean grip and presents it; then arm 1 takes its tail and arm 0 releases"
        where = [
            Segment("task", f"place {name} is at {x} {y} {z}") for name, (x, y, z) in self._places.items()
        ]
        goal = Segment("goal", f"hand the hammer over at place {self._goal}")
        return [Segment("task", task), *where, goal, Segment("safety", "never grip where it is oily")]

    # What happens to the hammer.

    def disturb(self) -> None:
        """Bumps on the table, pushes against the arm that holds it out, and a grip that slips."""
        holder, taker = self.arms
        if holder.holding and not taker.holding:
            raised = float(self._hammer().position[2]) - TABLE_Z
            if self._greasy and raised > 0.04:
                self._lose("slipped off the oily grip")
            elif self._slips and raised > self._slips[0] + 0.02:
                del self._slips[0]
                self._lose("lost its grip")
        if not self._bumps or self._bumps[0].step > self.now:
            return
        if holder.holding or taker.holding:
            bump = self._bumps.pop(0)
            far = np.linalg.norm(taker.pose.position * 1e3 - np.array(self._tail_grip()[:3])) > PUSH_FREE_MM
            if self._presented and far:
                self._push(bump)
        elif self._stands_free():
            self._bump(self._bumps.pop(0))

    def _stands_free(self) -> bool:
        """Whether arm 0's fingers are clear of the hammer on the table."""
        at = self._hammer().position
        way = self.arms[0].pose.position - at
        return bool(abs(at[2] - TABLE_Z) < 0.05 and (way[2] > CLEAR or float(np.linalg.norm(way)) > 0.25))

    def finished(self) -> bool:
        """Done, or the hammer lies on the floor, where no arm reaches it."""
        return self.success() or float(self._hammer().position[2]) < TABLE_Z - 0.1

    def _lose(self, why: str) -> None:
        self._presented = ""
        self.dropped(self.arms[0], why)

    def lost(self, arm: Arm) -> None:
        """What is lost is no longer presented."""
        self._presented = ""

    def _bump(self, bump: Bump) -> None:
        at, yaw = self._hammer().position, self._yaw()
        x, y = kept_within(float(at[0]), bump.x, 0.12), kept_within(float(at[1]) - TABLE_Y, bump.y, 0.07)
        turn = kept_within(yaw, bump.turn, self._level.yaw)
        self._lay(float(at[0]) + x, float(at[1]) + y, yaw + turn)
        self.bumped()

    def _push(self, bump: Bump) -> None:
        """Somebody leans against the holding arm: it gives way, half as far as a hammer would slide."""
        holder = self.arms[0]
        centre = np.array(self._held_at)
        holder.told = Pose(centre + np.array([bump.x / 2, bump.y / 2, 0.0]), holder.told.rotation)
        self.bumped()

    # The simulator's truth.

    def _hammer(self) -> Pose:
        return self.simulator.body(self.simulator.env.hammer_body_id)

    def _tail(self) -> Vector:
        """The direction from the head to the handle's end."""
        return np.asarray(-self._hammer().rotation[:, 2])

    def _yaw(self) -> float:
        """How far the handle's end is turned away from pointing at arm 1, in degrees."""
        tail = self._tail()
        return float(np.degrees(np.arctan2(-tail[0], tail[1])))

    def _along(self, metres: float) -> Sighting:
        """A point on the handle, so far from its middle towards the tail."""
        return (*in_millimetres(self._hammer().position + self._tail() * metres), round(self._yaw()))

    def _grips(self) -> dict[str, Sighting]:
        half = float(self.simulator.env.hammer.handle_length) / 2.0
        return {name: self._along(GRIP_AT[name] - half) for name in GRIPS}

    def _tail_grip(self) -> Sighting:
        return self._along(float(self.simulator.env.hammer.handle_length) / 2.0 - TAIL_AT)

    @property
    def _clean(self) -> str:
        return GRIPS[1 - GRIPS.index(self._oily)]

    def sightings(self) -> dict[str, Sighting]:
        """Both grips while the hammer lies on the table, its tail while it is held."""
        if self.arms[0].holding or self.arms[1].holding:
            return {"tail": self._tail_grip()}
        return {f"grip {name}": place for name, place in self._grips().items()}

    def reached(self) -> bool:
        """robosuite's own check, at the place asked for."""
        away = self._hammer().position[:2] - np.array(self._places[self._goal][:2]) / 1e3
        if not self.arms[1].holding or abs(away[0]) > AT_PLACE:
            return False
        return bool(self.simulator.env._check_success())

    # What the plan does.

    def _misses(self, arm: int, place: Sighting) -> bool:
        """Whether the arm is still to reach for another place than this."""
        goals = [call.args for call in self.left(arm) if call.skill == "reach"]
        if not goals:
            return False
        x, y, z, yaw = (float(arg) for arg in goals[0])
        off = np.linalg.norm(np.subtract((x, y, z), place[:3]))
        return bool(off > 15 or abs(wrapped(yaw - place[3])) > 12)

    def contradicts(self, name: str, seen: Sighting) -> bool:
        """What an arm is to reach for is no longer there."""
        if name == "tail":
            # Fingers that are about to close on it push it a little: that is no reason to plan anew.
            away = np.linalg.norm(self.arms[1].pose.position * 1e3 - np.array(seen[:3]))
            return self._misses(1, seen) and bool(away > NEAR_TAIL_MM)
        return name.endswith(self._clean) and self._misses(0, seen)

    def refuse(self, plan: Plan) -> str | None:
        """Places out of reach, and turns beyond the wrist's range."""
        for number, calls in plan.steps:
            for call in calls:
                if call.skill == "present" and number == 1:
                    return f"arm 1, {call}: only arm 0 presents"
                if call.skill not in ("reach", "present"):
                    continue
                x, y, z = (float(arg) for arg in call.args[:3])
                for axis, value, (low, high) in (
                    ("x", x, BOX_X),
                    ("y", y, BOX_Y[number]),
                    ("z", z, BOX_Z[number]),
                ):
                    if not low <= value <= high:
                        return f"arm {number}, {call}: {axis} is {low} to {high}"
                if call.skill == "reach" and abs(float(call.args[3])) > WRIST:
                    return f"arm {number}, {call}: the wrist turns {-WRIST:g} to {WRIST:g}"
        return None

    def motion(self, arm: Arm, call: SkillCall) -> Motion:
        """The skills of this world."""
        numbers = np.array([float(value) for value in call.args])
        if call.skill == "reach":
            return self._reach(arm, Pose(numbers[:3] / 1e3, _facing(arm, float(numbers[3]))))
        if call.skill == "present":
            return self._present(arm, numbers / 1e3)
        if call.skill == "grasp":
            return self._grasp(arm)
        if call.skill == "release":
            return self._release(arm)
        return self.synchronise() if call.skill == "sync" else self.wait()

    def _reach(self, arm: Arm, goal: Pose) -> Motion:
        yield from arm.open()
        yield from arm.approach(goal, APPROACH, FAST if arm.number == 0 else SLOW)

    def _grasp(self, arm: Arm) -> Motion:
        if arm.holding:
            return
        yield from arm.close()
        if arm.number == 0:
            here = arm.pose.position
            away = {name: np.linalg.norm(here - np.array(at[:3]) / 1e3) for name, at in self._grips().items()}
            self._greasy = bool(away[self._oily] < away[self._clean])

    def _present(self, arm: Arm, position: Vector) -> Motion:
        if not arm.holding:
            raise SkillFailedError("holds nothing")
        self._presented = ""
        straight = _facing(arm, 0.0)
        if arm.pose.position[2] < position[2] - 0.05:
            yield from arm.go(
                Pose(np.array([*arm.told.position[:2], position[2]]), arm.told.rotation), PRESENT_SPEED
            )
        yield from arm.go(Pose(position, straight), PRESENT_SPEED, metres=0.02)
        for _ in range(4):
            yield
        self._held_at = position
        self._presented = min(
            self._places,
            key=lambda name: float(np.linalg.norm(position - np.array(self._places[name]) / 1e3)),
        )

    def _release(self, arm: Arm) -> Motion:
        self._presented = "" if arm.number == 0 else self._presented
        yield from arm.open()
        yield from arm.go(arm.told.shifted(z=0.12))

    # References.

    def default_plan(self) -> Plan:
        """The hammer in the middle, its tail towards arm 1, handed over in the middle."""
        return handover_plan(LAYOUT, PLACES["b"], gripper="open")

    def truth_plan(self) -> Plan:
        """The hammer as it is."""
        holder, taker = self.arms
        call = self.current(0)
        state = "closing" if call is not None and call.skill == "grasp" else holder.gripper
        other = self.current(1)
        taking = "closing" if other is not None and other.skill == "grasp" else taker.gripper
        if holder.holding and self._presented == self._goal:
            return handover_plan(None, self._places[self._goal], state, self._tail_grip(), taking)
        return handover_plan(self._grips()[self._clean], self._places[self._goal], state, None, taking)

    def read(self, prompt: str) -> Plan:
        """The plan of one who reads this text and knows nothing else."""
        return read_handover(prompt, LAYOUT, PLACES["b"])


def _facing(arm: Arm, yaw: float) -> Matrix:
    """Arm 0: fingers down, closing across a handle that points to arm 1 when yaw is 0. Arm 1: at it, slanting."""
    if arm.number == 0:
        return np.asarray(about_z(yaw) @ np.diag([-1.0, 1.0, -1.0]))
    straight = np.stack(
        [
            [1.0, 0.0, 0.0],
            np.cross([0.0, -np.cos(TILT), -np.sin(TILT)], [1.0, 0.0, 0.0]),
            [0.0, -np.cos(TILT), -np.sin(TILT)],
        ],
        axis=1,
    )
    return np.asarray(about_z(yaw) @ straight)
