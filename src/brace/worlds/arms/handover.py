"""Arm 0 picks a hammer up and presents it, arm 1 takes it over (robosuite's TwoArmHandover)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from brace.context import Segment
from brace.plan import Arg, Plan, Skill, SkillCall, SkillSet
from brace.registry import worlds
from brace.worlds.arms.executor import FAST, SLOW, Arm, Motion, SkillFailedError
from brace.worlds.arms.geometry import Matrix, Pose, Vector, about_z, wrapped
from brace.worlds.arms.reading import handover_plan, read_handover
from brace.worlds.arms.surroundings import Announcement, Bump, Sighting, Trouble, draw_slips, kept_within
from brace.worlds.arms.things import GRIPS, TABLE_Z, Hammer
from brace.worlds.arms.world import GRASP, PLACE_ARGS, SYNC, WAIT, ArmsWorld, Box, arms_info, outside

SKILLS = SkillSet(
    [
        Skill(
            "reach", (*PLACE_ARGS, Arg("yaw", "number", resolution=10)),
            "bring the open gripper to a place, in mm and degrees",
        ),
        GRASP,
        Skill("present", PLACE_ARGS, "raise what is held and hold it out at a place"),
        SYNC,
        Skill("release", (), "open the gripper and go up"),
        WAIT,
    ],
    agents=2,
)  # fmt: skip

MOST_YAW = {"easy": 60.0, "normal": 90.0, "hard": 105.0}
"""How far the hammer's handle may point away from arm 1 (degrees)."""
TABLE_Y = -0.45
SPREAD_X, SPREAD_Y = 0.12, 0.07
"""How far from the middle of the table the hammer may be bumped, in metres."""
APPROACH, CLEAR = 0.13, 0.06
CARRY_Z, CARRY_SPEED = 1.0, 0.2
"""How high arm 0 lifts the hammer before it goes anywhere, and how fast it goes (metres, seconds)."""
STILL_STEPS = 4
"""So long it holds the hammer out before it says so: until it swings no more."""
NEAR_TAIL_MM = 60
"""Arm 1 this near to the tail is about to take it."""
PUSH_FREE_MM = 180
"""Nobody leans against an arm while the other is this near."""
OILY_HEIGHT = 0.02
"""So far (metres) can the hammer be raised by an oily grip."""
TILT = np.radians(45.0)
"""Arm 1 comes at the handle from above and behind, at this angle."""
WRIST = (-115, 115)
PLACES: dict[str, tuple[int, int, int]] = {"a": (-50, -60, 1050), "b": (0, -60, 1100), "c": (50, -60, 1050)}
"""About where the hammer is handed over, in mm; each episode shifts them a little."""
PLACE_SHIFT = 10
AT_PLACE_MM = 15
BOXES: tuple[Box, Box] = (
    {"x": (-260, 260), "y": (-640, 0), "z": (810, 1250), "yaw": WRIST},
    {"x": (-260, 260), "y": (-120, 320), "z": (900, 1250), "yaw": WRIST},
)
"""Where each arm can reach, in mm, and how far its wrist turns, in degrees."""
MISS_MM, MISS_DEGREES = 15, 12
"""Fingers this far off do not close on the handle."""
LAYOUT: Sighting = (0, -450, 819, 0)
"""Where a grip usually is."""


@worlds.register("handover-v1")
@dataclass(eq=False)
class HandoverWorld(ArmsWorld):
    """A hammer that others bump into, one oily grip, a place named by the goal, pushes while held out."""

    info = arms_info("one arm picks up a hammer and hands it to the other", "two-arm handover")
    id = "handover-v1"
    skills = SKILLS
    scene = ("TwoArmHandover", "agentview")
    # With this one the hammer's handle is 24 cm long.
    model_seed = 1
    angle = ("yaw", 360)
    steps: ClassVar = {"easy": 640, "normal": 540, "hard": 480}
    troubles: ClassVar = {
        "normal": Trouble((0.5, 1.5), (0.04, 0.08), (10.0, 30.0), (0.7, 0.3)),
        "strong": Trouble((0.4, 1.0), (0.05, 0.09), (15.0, 40.0), (0.4, 0.4, 0.2)),
    }

    # How an episode begins.

    def place(self) -> None:
        """The hammer, the oily grip, where it is to be handed over, and all that will happen."""
        draw, most = self.stream(2), MOST_YAW[self.difficulty]
        self._hammer = Hammer(self.simulator)
        self._oily = str(draw.choice(GRIPS))
        self._greasy = False
        self._held_out: Vector | None = None
        self._handed_at: Vector | None = None
        self._places: dict[str, tuple[int, int, int]] = {}
        for name, usual in PLACES.items():
            x, y, z = (int(value) for value in usual + draw.integers(-PLACE_SHIFT, PLACE_SHIFT + 1, 3))
            self._places[name] = (x, y, z)
        self._goal, later = (str(name) for name in draw.choice(tuple(PLACES), 2, replace=False))
        right, far = (float(value) for value in draw.uniform((-0.10, -0.05), (0.10, 0.05)))
        self._hammer.lay(right, TABLE_Y + far, float(draw.uniform(-most, most)))
        self.announcements = self._announcements(draw, later)
        self._slips = draw_slips(self._trouble, self.stream(4), 0.015, 0.03)

    def _announcements(self, draw: np.random.Generator, later: str) -> list[Announcement]:
        oily_at, change_at, place_at = (int(when) for when in draw.integers((-15, 5, 60), (25, 60, 200)))
        oily, clean = self._oily, self._clean
        # Draws below 0 make it likelier that it is said at the very beginning.
        said = [Announcement(max(0, oily_at), f"grip {oily} is oily", partial(self._say_oily, oily))]
        if draw.random() < self.corrections:
            text = f"grip {oily} is clean again and grip {clean} is oily"
            said.append(Announcement(change_at, text, partial(self._say_oily, clean)))
        if draw.random() < self.corrections:
            # No text: its effect says it as a goal, which stands at the head of a prompt.
            said.append(Announcement(place_at, "", partial(self._ask_for, later)))
        return said

    def _say_oily(self, grip: str) -> None:
        self._oily = grip
        if self._misses(0, self._hammer.grips()[self._clean]):
            self.diverged()

    def _ask_for(self, place: str) -> None:
        self._goal = place
        self.tell("goal", f"hand the hammer over at place {place}")
        self.goal_changed()

    def briefing(self) -> list[Segment]:
        """What holds throughout; the goal may be replaced later."""
        where = [f"place {name} is at {x} {y} {z}" for name, (x, y, z) in self._places.items()]
        return [
            Segment("task", "arm 0 picks the hammer up at its clean grip and presents it at a place"),
            Segment("task", "then arm 1 takes the tail and arm 0 releases"),
            *(Segment("task", line) for line in where),
            Segment("goal", f"hand the hammer over at place {self._goal}"),
            Segment("safety", "never grip where it is oily"),
        ]

    @property
    def _clean(self) -> str:
        return GRIPS[1 - GRIPS.index(self._oily)]

    # What happens to the hammer.

    def disturb(self) -> None:
        """Bumps on the table, pushes against the arm that holds it out, and a grip that slips."""
        holder, taker = self.arms
        if holder.holding and not taker.holding:
            if self._greasy and self._hammer.height > OILY_HEIGHT:
                self.dropped(holder, "slipped off the oily grip")
            elif self._slips and self._hammer.height > self._slips[0]:
                del self._slips[0]
                self.dropped(holder, "lost its grip")
        if not self.bump_is_due:
            return
        if holder.holding or taker.holding:
            bump = self._bumps.pop(0)
            if holder.holding and self._held_out is not None and self._away_from_tail() > PUSH_FREE_MM:
                holder.told = Pose(self._held_out + np.array([bump.x, bump.y, 0.0]) / 2, holder.told.rotation)
                self.bumped()
        # The hammer is moved at a stroke, so fingers near it would end up inside it.
        elif self._stands_free():
            self._bump(self._bumps.pop(0))

    def _away_from_tail(self) -> float:
        """How far arm 1's fingers are from the tail, in mm."""
        return float(np.linalg.norm(self.arms[1].pose.position * 1e3 - self._hammer.tail()[:3]))

    def _stands_free(self) -> bool:
        """Whether the hammer lies on the table and arm 0's fingers are clear of it."""
        way = self.arms[0].pose.position - self._hammer.pose.position
        clear = way[2] > CLEAR or float(np.linalg.norm(way)) > 0.25
        return bool(clear and abs(self._hammer.height) < 0.03)

    def _bump(self, bump: Bump) -> None:
        at, yaw = self._hammer.pose.position, self._hammer.yaw
        x = float(at[0]) + kept_within(float(at[0]), bump.x, SPREAD_X)
        y = float(at[1]) + kept_within(float(at[1]) - TABLE_Y, bump.y, SPREAD_Y)
        self._hammer.lay(x, y, yaw + kept_within(yaw, bump.turn, MOST_YAW[self.difficulty]))
        self.bumped()

    def sightings(self) -> dict[str, Sighting]:
        """Both grips while nobody holds the hammer, its tail while somebody does."""
        if any(arm.holding for arm in self.arms):
            return {"tail": self._hammer.tail()}
        return {f"grip {name}": place for name, place in self._hammer.grips().items()}

    def reached(self) -> bool:
        """robosuite's own check, and arm 0 held it out at the place asked for."""
        if not self.arms[1].holding or self._handed_at is None:
            return False
        away = np.linalg.norm(self._handed_at * 1e3 - self._places[self._goal])
        return bool(away < AT_PLACE_MM and self.simulator.env._check_success())

    def finished(self) -> bool:
        """Done, or the hammer lies on the floor, where no arm reaches it."""
        return self.success() or float(self._hammer.pose.position[2]) < TABLE_Z - 0.1

    # What the plan does.

    def _misses(self, arm: int, place: Sighting) -> bool:
        """Whether the arm is still to reach for another place than this."""
        goal = self.next_call(arm, "reach")
        if goal is None:
            return False
        x, y, z, yaw = map(float, goal.args)
        off = np.linalg.norm(np.subtract((x, y, z), place[:3]))
        return bool(off > MISS_MM or abs(wrapped(yaw - place[3])) > MISS_DEGREES)

    def contradicts(self, name: str, seen: Sighting) -> bool:
        """What an arm is to reach for is no longer there."""
        if name == "tail":
            # Fingers that are about to close on it push it a little: that is no reason to plan anew.
            return self._misses(1, seen) and self._away_from_tail() > NEAR_TAIL_MM
        return all(self._misses(0, place) for place in self._hammer.grips().values())

    def objection(self, arm: int, call: SkillCall) -> str | None:
        """Places out of reach, turns beyond the wrist's range, and what only the other arm does."""
        if call.skill == "present" and arm == 1:
            return f"{call}: only arm 0 presents"
        return outside(BOXES[arm], call) if call.skill in ("reach", "present") else None

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
        return super().motion(arm, call)

    def _reach(self, arm: Arm, goal: Pose) -> Motion:
        yield from arm.open()
        yield from arm.approach(goal, APPROACH, FAST if arm.number == 0 else SLOW)

    def _grasp(self, arm: Arm) -> Motion:
        # A plan that was written before the fingers had closed asks for it again.
        if arm.holding:
            return
        yield from arm.close()
        if arm.number == 0:
            here, grips = arm.pose.position * 1e3, self._hammer.grips()
            away = {name: float(np.linalg.norm(here - place[:3])) for name, place in grips.items()}
            self._greasy = away[self._oily] < away[self._clean]
            self._held_out = self._handed_at = None

    def _present(self, arm: Arm, position: Vector) -> Motion:
        if not arm.holding:
            raise SkillFailedError("holds nothing")
        self._held_out = None
        # An arm that is up already, as under a second plan, goes straight there.
        if arm.pose.position[2] < CARRY_Z - 0.05:
            up = np.array([*arm.told.position[:2], CARRY_Z])
            yield from arm.go(Pose(up, arm.told.rotation), CARRY_SPEED, metres=0.03)
        yield from arm.go(Pose(position, _facing(arm, 0.0)), CARRY_SPEED, metres=0.02)
        for _ in range(STILL_STEPS):
            yield
        self._held_out = self._handed_at = position

    def _release(self, arm: Arm) -> Motion:
        if arm.number == 0:
            self._held_out = None
        yield from arm.open()
        yield from arm.go(arm.told.shifted(z=0.12))

    # References.

    def default_plan(self) -> Plan:
        """The hammer in the middle, its tail towards arm 1, handed over in the middle."""
        return handover_plan(LAYOUT, PLACES["b"], gripper="open")

    def truth_plan(self) -> Plan:
        """The hammer as it is."""
        place = self._places[self._goal]
        states = []
        for arm in self.arms:
            call = self.current(arm.number)
            # The arm is in place: to reach anew would open the fingers.
            states.append("closing" if call is not None and call.skill == "grasp" else arm.gripper)
        out = self._held_out
        there = out is not None and float(np.linalg.norm(out * 1e3 - place)) < AT_PLACE_MM
        tail = self._hammer.tail() if there else None
        return handover_plan(self._hammer.grips()[self._clean], place, states[0], tail, states[1])

    def read(self, prompt: str) -> Plan:
        """The plan of one who reads this text and knows nothing else."""
        return read_handover(prompt, LAYOUT, PLACES["b"])


def _facing(arm: Arm, yaw: float) -> Matrix:
    """Arm 0: fingers down, closing across a handle that points to arm 1 when yaw is 0. Arm 1: slanting."""
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
