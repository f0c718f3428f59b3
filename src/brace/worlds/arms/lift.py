"""Two arms lift a pot by its handles, level, to the height the operator asks for (robosuite's TwoArmLift)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from brace.context import Segment
from brace.plan import Arg, Plan, Skill, SkillCall, SkillSet
from brace.registry import worlds
from brace.worlds.arms.executor import SLOW, Arm, Motion, SkillFailedError
from brace.worlds.arms.geometry import Matrix, Pose, Vector, about_z, quaternion_of, wrapped
from brace.worlds.arms.reading import lift_plan, read_lift, reach_for
from brace.worlds.arms.simulator import Simulator
from brace.worlds.arms.trouble import Bump, Trouble, draw_bumps, draw_slips, kept_within
from brace.worlds.arms.world import (
    ARMS, SUCCESS_STEPS, Announcement, ArmsWorld, Difficulty, Disturbance, Sighting, arms_info, check_options,
)  # fmt: skip

SKILLS = SkillSet(
    [
        Skill(
            "reach",
            (
                Arg("x", "number", resolution=10),
                Arg("y", "number", resolution=10),
                Arg("z", "number", resolution=10),
                Arg("yaw", "number", resolution=10),
            ),
            "bring the open gripper over a place and down to it, in mm and degrees",
        ),
        Skill("grasp", (), "close the gripper"),
        Skill("sync", (), "wait until the other arm is at its sync too"),
        Skill("lift", (Arg("height", "number", resolution=5),), "raise what is held to a height in mm"),
        Skill("wait", (), "wait half a second"),
    ],
    agents=2,
)

COLOURS = ("blue", "green")
"""The colour of handle 0 and of handle 1."""
HEIGHTS = (120, 140, 160, 180, 200)
HEIGHT_SLACK = 0.012
GRIP_DEPTH = 0.005
"""How far below a handle's centre it is gripped, in metres."""
HOVER = 0.12
TABLE_Z, HANDLE_Z = 0.80, 0.930
CLEAR_Z = HANDLE_Z + 0.045
"""Fingers above this are in nobody's way."""
WRIST = 115.0
"""How far a wrist turns to either side of straight, in degrees."""
BOX_X, BOX_Z = (-260, 260), (900, 1200)
BOX_Y = ((-330, 130), (-130, 330))
"""Where each arm can reach, in mm."""
APART_MM = 150
LAYOUT: dict[int, Sighting] = {0: (0, -147, 930, 90), 1: (0, 147, 930, 90)}
"""Where the handles usually are."""


@dataclass(frozen=True)
class _Level:
    yaw: float
    """How far the pot may be turned, either way, from its handles pointing at the arms (degrees)."""
    offset: float
    """How far from the middle of the table it may stand (metres)."""
    corrections: float
    """How likely the operator changes the height later."""
    max_steps: int


LEVELS: dict[Difficulty, _Level] = {
    "easy": _Level(40.0, 0.03, 0.0, 500),
    "normal": _Level(70.0, 0.05, 0.4, 400),
    "hard": _Level(95.0, 0.06, 0.7, 360),
}
TROUBLES: dict[Disturbance, Trouble | None] = {
    "none": None,
    "normal": Trouble((0.4, 1.2), (0.04, 0.08), (10.0, 30.0), (0.6, 0.4)),
    "strong": Trouble((0.3, 0.8), (0.05, 0.09), (15.0, 40.0), (0.3, 0.5, 0.2)),
}


@worlds.register("lift-v1")
class LiftWorld(ArmsWorld):
    """A pot that others bump into, a hot handle that only arm 1 may touch, and a height said by the operator."""

    info = arms_info("two arms lift a pot level by its handles", "two-arm lift")
    id = "lift-v1"
    skills = SKILLS

    def __init__(self, *, difficulty: Difficulty = "normal", disturbance: Disturbance = "normal") -> None:
        check_options(self.id, difficulty, disturbance)
        self._level, self._trouble = LEVELS[difficulty], TROUBLES[disturbance]
        self.max_steps = self._level.max_steps
        super().__init__(Simulator("TwoArmLift", "frontview", self.info, self.id), disturbance)
        self.reset(0)

    # How an episode begins.

    def place(self) -> None:
        """The pot's place, the hot handle, the height, and all that will happen to them."""
        draw = self.stream(2)
        level = self._level
        self._hot = int(draw.integers(2))
        self._height = 0
        self._lifted_from = [0.0, 0.0]
        self._slipped = 0
        at = draw.uniform(-level.offset, level.offset, 2)
        self._stand(np.array([*at, TABLE_Z + 0.07]), float(draw.uniform(-level.yaw, level.yaw)))
        self.announcements = self._announcements(draw)
        self._bumps = draw_bumps(self._trouble, self.stream(3), self.max_steps, self.dt)
        self._slips = draw_slips(self._trouble, self.stream(4), 0.008, 0.02)

    def _stand(self, position: Vector, yaw: float) -> None:
        """Put the pot down, turned by `yaw` from the hot handle pointing straight at arm 1."""
        self._at, self._yaw = position, yaw
        # Handle 0 lies on the pot's own +y side, and arm 1 stands on the world's.
        turn = yaw if self._hot == 0 else yaw + 180.0
        self.simulator.place(self._joint, position, quaternion_of(about_z(turn)))

    @property
    def _joint(self) -> str:
        return str(self.simulator.env.pot.joints[0])

    def _announcements(self, draw: np.random.Generator) -> list[Announcement]:
        height, later = (int(one) for one in draw.choice(HEIGHTS, 2, replace=False))
        hot_at, height_at, later_at = draw.integers((-15, -15, 40), (25, 25, 120))
        said = [
            Announcement(max(0, int(hot_at)), f"the {COLOURS[self._hot]} handle is hot", self._say_hot),
            Announcement(max(0, int(height_at)), f"lift to {height}", partial(self._ask_for, height)),
        ]
        if draw.random() < self._level.corrections:
            said.append(
                Announcement(int(later_at), f"lift to {later} instead", partial(self._ask_for, later))
            )
        return said

    def _say_hot(self) -> None:
        handles = self._handles()
        if any(self._misses(arm, handles[self._handle_of(arm)]) for arm in ARMS):
            self.diverged()

    def _ask_for(self, height: int) -> None:
        self._height = height
        self.goal_changed()

    def briefing(self) -> list[Segment]:
        """What holds in every episode, and what the operator says at once."""
        return [
            Segment(
                "task", "lift the pot with both arms, one at each handle, to the height the operator says"
            ),
            Segment("goal", "the pot level at that height"),
            Segment("safety", "only arm 1 may touch the hot handle"),
        ]

    # What happens to the pot.

    def disturb(self) -> None:
        """Bump the pot when it is time and it stands free; open fingers that are to slip."""
        if self._slips and all(arm.holding for arm in self.arms):
            height = self._slips[0]
            if self._raised() > height:
                del self._slips[0]
                # Which arm slips is as good as random: it depends on the height drawn.
                self._drop(self.arms[round(height * 1e5) % 2])
        if not self._bumps or self._bumps[0].step > self.now:
            return
        if any(arm.holding for arm in self.arms):
            del self._bumps[0]
        elif all(arm.pose.position[2] > CLEAR_Z for arm in self.arms):
            self._bump(self._bumps.pop(0))

    def _bump(self, bump: Bump) -> None:
        """Shift and turn the pot within what both arms can reach."""
        at, yaw = self._pot()
        limit = self._level.offset + 0.03
        x, y = kept_within(float(at[0]), bump.x, limit), kept_within(float(at[1]), bump.y, limit)
        turn = kept_within(yaw, bump.turn, self._level.yaw)
        self._stand(at + np.array([x, y, 0.0]), yaw + turn)
        self.bumped()

    def _drop(self, slipping: Arm) -> None:
        """One arm's fingers slip; the other lets go too, before the pot tilts."""
        self.dropped(slipping, "lost its grip")
        self.lost(slipping)

    def lost(self, arm: Arm) -> None:
        """The other arm must not tilt the pot."""
        other = self.arms[1 - arm.number]
        if other.holding and self._raised() > 0.005:
            self.let_go(other, "the other arm lost its grip")

    # The simulator's truth.

    def _pot(self) -> tuple[Vector, float]:
        """Where the pot stands and how it is turned (as in `_stand`)."""
        pose = self.simulator.body(self.simulator.env.pot_body_id)
        yaw = np.degrees(np.arctan2(pose.rotation[1, 0], pose.rotation[0, 0]))
        return pose.position, wrapped(float(yaw) - (0.0 if self._hot == 0 else 180.0))

    def _raised(self) -> float:
        """How high the pot's bottom is above the table."""
        env = self.simulator.env
        centre = float(env.sim.data.site_xpos[env.pot_center_id][2])
        return centre - float(env.pot.top_offset[2]) - float(env.sim.data.site_xpos[env.table_top_id][2])

    def _handles(self) -> dict[str, Sighting]:
        env = self.simulator.env
        axis = self.simulator.body(env.pot_body_id).rotation[:, 1]
        yaw = round(wrapped(float(np.degrees(np.arctan2(axis[1], axis[0]))), 180.0))
        places = (env._handle0_xpos, env._handle1_xpos)
        return {
            colour: (round(x * 1e3), round(y * 1e3), round(z * 1e3), yaw)
            for colour, (x, y, z) in zip(COLOURS, places, strict=True)
        }

    def sightings(self) -> dict[str, Sighting]:
        """Both handles: place, and the yaw at which fingers close across them."""
        return {f"{colour} handle": place for colour, place in self._handles().items()}

    def _handle_of(self, arm: int) -> str:
        return COLOURS[self._hot if arm == 1 else 1 - self._hot]

    def reached(self) -> bool:
        """robosuite's own check, at the height asked for, in both hands."""
        held = all(arm.holding for arm in self.arms)
        near = abs(self._raised() - self._height / 1e3) < HEIGHT_SLACK
        return held and near and bool(self.simulator.env._check_success())

    # What the plan does.

    def _misses(self, arm: int, handle: Sighting) -> bool:
        """Whether the arm is still to reach for another place than this."""
        goals = [call.args for call in self.left(arm) if call.skill == "reach"]
        if not goals:
            return False
        x, y, _, yaw = (float(arg) for arg in goals[0])
        off = np.hypot(x - handle[0], y - handle[1])
        return bool(off > 15 or abs(wrapped(yaw - handle[3], 180.0)) > 12)

    def contradicts(self, name: str, seen: Sighting) -> bool:
        """A handle is no longer where an arm is to reach for it."""
        return any(self._misses(arm, seen) for arm in ARMS if name.startswith(self._handle_of(arm)))

    def refuse(self, plan: Plan) -> str | None:
        """Places out of reach, and two arms at one place."""
        goals: dict[int, list[tuple[float, float]]] = {}
        for number, calls in plan.steps:
            for call in calls:
                if call.skill == "lift" and not 0 <= float(call.args[0]) <= 250:
                    return f"arm {number}, {call}: height is 0 to 250"
                if call.skill == "reach":
                    x, y, z, _ = (float(arg) for arg in call.args)
                    for axis, value, (low, high) in (
                        ("x", x, BOX_X),
                        ("y", y, BOX_Y[number]),
                        ("z", z, BOX_Z),
                    ):
                        if not low <= value <= high:
                            return f"arm {number}, {call}: {axis} is {low} to {high}"
                    goals.setdefault(number, []).append((x, y))
        if len(goals) == 2 and np.hypot(*np.subtract(goals[0][0], goals[1][0])) < APART_MM:
            return f"both arms at one place; keep them {APART_MM} apart"
        return None

    def motion(self, arm: Arm, call: SkillCall) -> Motion:
        """The skills of this world."""
        if call.skill == "reach":
            x, y, z, yaw = (float(value) for value in call.args)
            return self._reach(arm, np.array([x, y, z]) / 1e3 - [0.0, 0.0, GRIP_DEPTH], yaw)
        if call.skill == "grasp":
            return self._grasp(arm)
        if call.skill == "lift":
            return self._lift(arm, float(call.args[0]) / 1e3)
        return self.synchronise() if call.skill == "sync" else self.wait()

    def _reach(self, arm: Arm, position: Vector, yaw: float) -> Motion:
        yield from arm.open()
        yield from arm.approach(Pose(position, self._facing_down(arm, yaw)), HOVER)

    def _facing_down(self, arm: Arm, yaw: float) -> Matrix:
        """Fingers down, closing along `yaw`; of the two ways, the one nearer to how the wrist is now."""
        side = 180.0 if arm.number == 0 else 0.0
        straight = np.diag([-1.0, 1.0, -1.0]) if arm.number == 0 else np.diag([1.0, -1.0, -1.0])
        axis = arm.told.rotation[:, 0]
        turned = wrapped(float(np.degrees(np.arctan2(axis[1], axis[0]))) - side)
        first = wrapped(yaw - side)
        ways = [way for way in (first, first - 180.0, first + 180.0) if abs(way) <= WRIST]
        return about_z(min(ways, key=lambda way: abs(way - turned))) @ straight

    def _grasp(self, arm: Arm) -> Motion:
        if arm.holding:
            return
        yield from arm.close()
        self._lifted_from[arm.number] = float(arm.told.position[2])
        if arm.number == 0 and self._touches_hot(arm):
            yield from arm.back_off("this handle is hot")

    def _touches_hot(self, arm: Arm) -> bool:
        hot = np.array(self._handles()[COLOURS[self._hot]][:3]) / 1e3
        return float(np.linalg.norm(arm.pose.position - hot)) < 0.05

    def _lift(self, arm: Arm, height: float) -> Motion:
        if not arm.holding:
            raise SkillFailedError("holds nothing")
        goal = arm.told.position.copy()
        goal[2] = self._lifted_from[arm.number] + height
        yield from arm.go(Pose(goal, arm.told.rotation), speed=SLOW, metres=0.03)
        for _ in range(SUCCESS_STEPS):
            yield

    # References.

    def default_plan(self) -> Plan:
        """The pot in the middle, its handles towards the arms, a middling height."""
        return lift_plan({arm: reach_for(LAYOUT[arm]) for arm in ARMS}, 160)

    def truth_plan(self) -> Plan:
        """The handles as they are."""
        handles = self._handles()
        lines = {}
        for arm in self.arms:
            call = self.current(arm.number)
            if arm.holding:
                lines[arm.number] = []
            elif call is not None and call.skill == "grasp":
                lines[arm.number] = [call]
            else:
                lines[arm.number] = reach_for(handles[self._handle_of(arm.number)])
        return lift_plan(lines, self._height or 160)

    def read(self, prompt: str) -> Plan:
        """The plan of one who reads this text and knows nothing else."""
        return read_lift(prompt, LAYOUT)
