"""Two arms lift a pot by its handles, level, to the height the operator asks for (robosuite's TwoArmLift)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from brace.context import Segment
from brace.plan import Arg, Plan, Skill, SkillCall, SkillSet
from brace.registry import worlds
from brace.worlds.arms.executor import ARMS, SLOW, Arm, Motion, SkillFailedError
from brace.worlds.arms.geometry import Matrix, Pose, Vector, about_z, wrapped
from brace.worlds.arms.reading import lift_plan, reach_for, read_lift
from brace.worlds.arms.surroundings import Announcement, Bump, Sighting, Trouble, draw_slips, kept_within
from brace.worlds.arms.things import COLOURS, Pot
from brace.worlds.arms.world import GRASP, PLACE_ARGS, SYNC, WAIT, ArmsWorld, Box, arms_info, outside

SKILLS = SkillSet(
    [
        Skill(
            "reach",
            (*PLACE_ARGS, Arg("yaw", "number", resolution=10)),
            "bring the open gripper over a place and down to it, in mm and degrees",
        ),
        GRASP,
        SYNC,
        Skill("lift", (Arg("height", "number", resolution=5),), "raise what is held to a height in mm"),
        WAIT,
    ],
    agents=2,
)

HEIGHTS = (120, 140, 160, 180, 200)
USUAL_HEIGHT = 160
HEIGHT_SLACK = 0.012
GRIP_DEPTH = 0.005
"""How far below a handle's centre it is gripped, in metres."""
HOVER = 0.12
STAND_Z, HANDLE_Z = 0.87, 0.930
CLEAR_Z = HANDLE_Z + 0.045
"""Fingers above this are in nobody's way."""
HOT_M = 0.05
"""Fingers this near to the hot handle feel it."""
WRIST = 115.0
"""How far a wrist turns to either side of straight, in degrees."""
BOXES: tuple[Box, Box] = (
    {"x": (-260, 260), "y": (-330, 130), "z": (900, 1200)},
    {"x": (-260, 260), "y": (-130, 330), "z": (900, 1200)},
)
"""Where each arm can reach, in mm."""
APART_MM = 150
MISS_MM, MISS_DEGREES = 15, 12
"""Fingers this far off do not close on a handle."""
MOST_YAW = {"easy": 40.0, "normal": 70.0, "hard": 95.0}
"""How far the pot may be turned, either way, from its handles pointing at the arms (degrees)."""
MOST_OFFSET = {"easy": 0.03, "normal": 0.05, "hard": 0.06}
"""How far from the middle of the table it may stand (metres)."""
LAYOUT: dict[int, Sighting] = {0: (0, -147, 930, 90), 1: (0, 147, 930, 90)}
"""Where each arm's handle usually is."""


@worlds.register("lift-v1")
@dataclass(eq=False)
class LiftWorld(ArmsWorld):
    """A pot that others bump into, a hot handle that only arm 1 may touch, a height said by the operator."""

    info = arms_info("two arms lift a pot level by its handles", "two-arm lift")
    id = "lift-v1"
    skills = SKILLS
    scene = ("TwoArmLift", "frontview")
    steps: ClassVar = {"easy": 500, "normal": 400, "hard": 360}
    troubles: ClassVar = {
        "normal": Trouble((0.4, 1.1), (0.04, 0.08), (10.0, 30.0), (0.6, 0.4)),
        "strong": Trouble((0.3, 0.8), (0.05, 0.09), (15.0, 40.0), (0.3, 0.5, 0.2)),
    }

    # How an episode begins.

    def place(self) -> None:
        """The pot's place, the hot handle, the height, and all that will happen to them."""
        draw, most, offset = self.stream(2), MOST_YAW[self.difficulty], MOST_OFFSET[self.difficulty]
        self._pot = Pot(self.simulator)
        self._hot = str(draw.choice(COLOURS))
        self._height = 0
        self._gripped_at = [0.0, 0.0]
        x, y = draw.uniform(-offset, offset, 2)
        yaw = draw.uniform(-most, most)
        # The hot handle is for arm 1, so it lies on its side.
        self._pot.stand(np.array([x, y, STAND_Z]), float(yaw) + self._towards_arm_1)
        self.announcements = self._announcements(draw)
        slips = self.stream(4)
        self._slips = draw_slips(self._trouble, slips, 0.008, 0.02)
        self._slipping = [int(arm) for arm in slips.integers(0, 2, len(self._slips))]

    @property
    def _towards_arm_1(self) -> float:
        """The pot's yaw when the hot handle points straight at arm 1."""
        return 0.0 if self._hot == COLOURS[0] else 180.0

    def _announcements(self, draw: np.random.Generator) -> list[Announcement]:
        height, later = (int(one) for one in draw.choice(HEIGHTS, 2, replace=False))
        hot_at, height_at, later_at = (int(when) for when in draw.integers((-8, -8, 40), (25, 25, 120)))
        said = [
            # Draws below 0 make it likelier that it is said at the very beginning.
            Announcement(max(0, hot_at), f"the {self._hot} handle is hot", self._say_hot),
            Announcement(max(0, height_at), f"lift to {height}", partial(self._ask_for, height)),
        ]
        if draw.random() < self.corrections:
            said.append(Announcement(later_at, f"lift to {later} instead", partial(self._ask_for, later)))
        return said

    def _say_hot(self) -> None:
        handles = self._pot.handles()
        if any(self._misses(arm, handles[self._handle_of(arm)]) for arm in ARMS):
            self.diverged()

    def _ask_for(self, height: int) -> None:
        self._height = height
        self.goal_changed()

    def briefing(self) -> list[Segment]:
        """What holds in every episode."""
        task = "lift the pot with both arms, one at each handle, to the height the operator says"
        return [
            Segment("task", task),
            Segment("goal", "the pot level at that height"),
            Segment("safety", "only arm 1 may touch the hot handle"),
        ]

    # What happens to the pot.

    def disturb(self) -> None:
        """Bump the pot when it is time and it stands free; open fingers that are to slip."""
        if self._slips and all(arm.holding for arm in self.arms) and self._pot.height > self._slips[0]:
            del self._slips[0]
            slipping = self.arms[self._slipping.pop(0)]
            self.dropped(slipping, "lost its grip")
            self.lost(slipping)
        if not self.bump_is_due:
            return
        if any(arm.holding for arm in self.arms):
            # Nobody bumps into what is held, nor makes up for it later.
            del self._bumps[0]
        # The pot is moved at a stroke, so fingers near it would end up inside it.
        elif all(arm.pose.position[2] > CLEAR_Z for arm in self.arms):
            self._bump(self._bumps.pop(0))

    def _bump(self, bump: Bump) -> None:
        """Shift and turn the pot within what both arms can reach."""
        at, yaw = self._pot.position, wrapped(self._pot.yaw - self._towards_arm_1)
        limit = MOST_OFFSET[self.difficulty] + 0.03
        x, y = kept_within(float(at[0]), bump.x, limit), kept_within(float(at[1]), bump.y, limit)
        yaw += kept_within(yaw, bump.turn, MOST_YAW[self.difficulty])
        self._pot.stand(at + np.array([x, y, 0.0]), yaw + self._towards_arm_1)
        self.bumped()

    def lost(self, arm: Arm) -> None:
        """The other arm lets go too, before the pot tilts."""
        other = self.arms[1 - arm.number]
        if other.holding and self._pot.height > 0.005:
            self.let_go(other, "the other arm lost its grip")

    def sightings(self) -> dict[str, Sighting]:
        """Both handles: place, and the yaw at which fingers close across them."""
        return {f"{colour} handle": place for colour, place in self._pot.handles().items()}

    def reached(self) -> bool:
        """robosuite's own check, at the height asked for, in both hands."""
        held = all(arm.holding for arm in self.arms)
        near = abs(self._pot.height - self._height / 1e3) < HEIGHT_SLACK
        return held and near and bool(self.simulator.env._check_success())

    # What the plan does.

    def _handle_of(self, arm: int) -> str:
        return next(colour for colour in COLOURS if (colour == self._hot) == (arm == 1))

    def _misses(self, arm: int, *handles: Sighting) -> bool:
        """Whether the arm is still to reach for a place where none of these handles is."""
        goal = self.next_call(arm, "reach")
        if goal is None:
            return False
        # Not the height: wherever the pot stands, its handles are equally high.
        x, y, _, yaw = map(float, goal.args)
        return all(
            np.hypot(x - handle[0], y - handle[1]) > MISS_MM
            or abs(wrapped(yaw - handle[3], 180.0)) > MISS_DEGREES
            for handle in handles
        )

    def contradicts(self, name: str, seen: Sighting) -> bool:
        """An arm is to reach for a place where no handle is any more."""
        handles = self._pot.handles().values()
        return any(self._misses(arm, *handles) for arm in ARMS)

    def objection(self, arm: int, call: SkillCall) -> str | None:
        """Places out of reach."""
        return outside({"lift": {"height": (0, 250)}, "reach": BOXES[arm]}.get(call.skill, {}), call)

    def refuse(self, plan: Plan) -> str | None:
        """Two arms at one place."""
        goals = {
            number: (float(call.args[0]), float(call.args[1]))
            for number, calls in plan.steps
            # Backwards, so that of several places an arm's first one is what remains.
            for call in reversed(calls)
            if call.skill == "reach"
        }
        problem = super().refuse(plan)
        if problem is None and len(goals) == 2 and np.hypot(*np.subtract(goals[0], goals[1])) < APART_MM:
            problem = f"both arms at one place; keep them {APART_MM} apart"
        return problem

    def motion(self, arm: Arm, call: SkillCall) -> Motion:
        """The skills of this world."""
        if call.skill == "reach":
            x, y, z, yaw = map(float, call.args)
            return self._reach(arm, np.array([x, y, z]) / 1e3, yaw)
        if call.skill == "grasp":
            return self._grasp(arm)
        if call.skill == "lift":
            return self._lift(arm, float(call.args[0]) / 1e3)
        return super().motion(arm, call)

    def _reach(self, arm: Arm, position: Vector, yaw: float) -> Motion:
        yield from arm.open()
        goal = Pose(position, _facing_down(arm, yaw)).shifted(z=-GRIP_DEPTH)
        yield from arm.approach(goal, HOVER)

    def _grasp(self, arm: Arm) -> Motion:
        # A plan that was written before the fingers had closed asks for it again.
        if arm.holding:
            return
        yield from arm.close()
        # Heights to lift to count from the table, where the pot stands when it is gripped.
        self._gripped_at[arm.number] = float(arm.told.position[2])
        hot = np.array(self._pot.handles()[self._hot][:3]) / 1e3
        if arm.number == 0 and float(np.linalg.norm(arm.pose.position - hot)) < HOT_M:
            yield from arm.back_off("this handle is hot")

    def _lift(self, arm: Arm, height: float) -> Motion:
        if not arm.holding:
            raise SkillFailedError("holds nothing")
        goal = arm.told.position.copy()
        goal[2] = self._gripped_at[arm.number] + height
        yield from arm.go(Pose(goal, arm.told.rotation), SLOW, metres=0.03)
        yield from self.stay()

    # References.

    def default_plan(self) -> Plan:
        """The pot in the middle, its handles towards the arms, a middling height."""
        return lift_plan({arm: reach_for(LAYOUT[arm]) for arm in ARMS}, USUAL_HEIGHT)

    def truth_plan(self) -> Plan:
        """The handles as they are."""
        handles = self._pot.handles()
        first: dict[int, list[SkillCall]] = {}
        for arm in self.arms:
            call = self.current(arm.number)
            if arm.holding:
                first[arm.number] = []
            # The arm is in place: to reach anew would open the fingers.
            elif call is not None and call.skill == "grasp":
                first[arm.number] = [call]
            else:
                first[arm.number] = reach_for(handles[self._handle_of(arm.number)])
        return lift_plan(first, self._height or USUAL_HEIGHT)

    def read(self, prompt: str) -> Plan:
        """The plan of one who reads this text and knows nothing else."""
        return read_lift(prompt, LAYOUT, USUAL_HEIGHT)


def _facing_down(arm: Arm, yaw: float) -> Matrix:
    """Fingers down, closing along `yaw`; of the two ways, the one nearer to how the wrist is now."""
    side = 180.0 if arm.number == 0 else 0.0
    straight = np.diag([-1.0, 1.0, -1.0]) if arm.number == 0 else np.diag([1.0, -1.0, -1.0])
    axis = arm.told.rotation[:, 0]
    turned = wrapped(float(np.degrees(np.arctan2(axis[1], axis[0]))) - side)
    first = wrapped(yaw - side)
    ways = [way for way in (first, first - 180.0, first + 180.0) if abs(way) <= WRIST]
    return np.asarray(about_z(min(ways, key=lambda way: abs(way - turned))) @ straight)
