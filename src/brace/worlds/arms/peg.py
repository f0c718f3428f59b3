"""One arm holds a board with a hole, the other puts a peg into it (robosuite's TwoArmPegInHole)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from brace.context import Segment
from brace.plan import Arg, Plan, Skill, SkillCall, SkillSet
from brace.registry import worlds
from brace.worlds.arms.executor import FAST, SLOW, Arm, Motion, SkillFailedError
from brace.worlds.arms.geometry import Pose, Vector, turn_towards
from brace.worlds.arms.peg_reading import peg_plan, read_peg
from brace.worlds.arms.simulator import Simulator
from brace.worlds.arms.trouble import Bump, Trouble, draw_bumps
from brace.worlds.arms.world import (
    ARMS, SUCCESS_STEPS, Announcement, ArmsWorld, Difficulty, Disturbance, Sighting, arms_info,
    check_options, in_millimetres,
)  # fmt: skip

SKILLS = SkillSet(
    [
        Skill(
            "align",
            (
                Arg("x", "number", resolution=10), Arg("y", "number", resolution=10),
                Arg("z", "number", resolution=10), Arg("tilt", "number", resolution=5),
            ),
            "arm 1 brings the hole there, arm 0 the peg in front of it, in mm and degrees",
        ),
        Skill("sync", (), "wait until the other arm is at its sync too"),
        Skill("insert", (Arg("depth", "number", resolution=5),), "push the peg in, so many mm deep"),
        Skill("wait", (), "wait half a second"),
    ],
    agents=2,
)  # fmt: skip

PEG, BOARD = ARMS
"""Which arm holds what."""
PLACES: dict[str, Sighting] = {
    "m1": (-110, 100, 1280, 40), "m2": (0, 100, 1300, 45), "m3": (90, 100, 1290, 50), "m4": (-10, 60, 1180, 40),
}  # fmt: skip
"""About where the arms can meet; each episode shifts these a little."""
PLACE_SHIFT = (12, 12, 12, 4)
DEPTHS = (50, 70, 90, 110)
DEPTH_SLACK, SIDE_SLACK = 0.009, 0.015
"""How exactly the peg must sit, in metres."""
STAND_OFF = 0.12
"""How far before the hole the peg's tip is when it is aligned, in metres."""
AT_PLACE = 80
"""A board this near to a place (mm) is there, however it was pushed."""
BOX = (("x", (-200, 200)), ("y", (-20, 220)), ("z", (1050, 1420)), ("tilt", (25, 65)))
"""Where both arms can meet, in mm and degrees."""
HOLE_IN_BOARD = np.array([0.1, 0.0, 0.0])
PUSHED_TILT = 0.3
"""A push that would turn something lying by one degree tilts the board by this much."""


@dataclass(frozen=True)
class _Level:
    occupied: int
    """How many of the four places are."""
    corrections: float
    """How likely each of the operator's words is changed later."""
    max_steps: int


LEVELS: dict[Difficulty, _Level] = {
    "easy": _Level(1, 0.0, 400),
    "normal": _Level(2, 0.4, 320),
    "hard": _Level(3, 0.7, 300),
}
TROUBLES: dict[Disturbance, Trouble | None] = {
    "none": None,
    "normal": Trouble((0.5, 1.2), (0.03, 0.06), (5.0, 25.0), (1.0,)),
    "strong": Trouble((0.4, 1.0), (0.04, 0.06), (10.0, 30.0), (1.0,)),
}


@worlds.register("peg-v1")
class PegWorld(ArmsWorld):
    """Meeting places of which some are occupied, a depth said by the operator, and pushes against the board."""

    info = arms_info("one arm puts a peg into a board the other holds", "peg-in-hole")
    id = "peg-v1"
    skills = SKILLS
    angle_word = "tilt"

    def __init__(self, *, difficulty: Difficulty = "normal", disturbance: Disturbance = "normal") -> None:
        check_options(self.id, difficulty, disturbance)
        self._level, self._trouble = LEVELS[difficulty], TROUBLES[disturbance]
        self.max_steps = self._level.max_steps
        super().__init__(Simulator("TwoArmPegInHole", "agentview", self.info, self.id), disturbance)
        self.reset(0)

    # How an episode begins.

    def place(self) -> None:
        """The meeting places, which are occupied, the depth, and all that will happen."""
        draw = self.stream(2)
        self._places: dict[str, Sighting] = {}
        for name, usual in PLACES.items():
            x, y, z, tilt = (
                int(a + draw.integers(-b, b + 1)) for a, b in zip(usual, PLACE_SHIFT, strict=True)
            )
            self._places[name] = (x, y, z, tilt)
        self._depth = 0
        self._peg_at: Sighting | None = None
        self._board_at: Sighting | None = None
        self._inside = False
        self._mount()
        self.announcements = self._announcements(draw)
        self._bumps = draw_bumps(self._trouble, self.stream(3), self.max_steps, self.dt)

    def _mount(self) -> None:
        """How peg and board sit on the arms: the arms' own calibration."""
        env, home = self.simulator.env, [self.simulator.pose(arm) for arm in ARMS]
        self._home = [pose.rotation for pose in home]
        peg, board = self.simulator.body(env.peg_body_id), self.simulator.body(env.hole_body_id)
        self._peg_offset = home[PEG].rotation.T @ (peg.position - home[PEG].position)
        self._peg_axis = home[PEG].rotation.T @ peg.rotation[:, 2]
        hole = board.position + board.rotation @ HOLE_IN_BOARD
        self._hole_offset = home[BOARD].rotation.T @ (hole - home[BOARD].position)
        self._board_normal = home[BOARD].rotation.T @ board.rotation[:, 2]
        self._peg_half = float(env.peg_length)

    def _announcements(self, draw: np.random.Generator) -> list[Announcement]:
        names = [str(name) for name in draw.permutation(tuple(PLACES))]
        self._occupied = set(names[: self._level.occupied])
        depth, later = (int(one) for one in draw.choice(DEPTHS, 2, replace=False))
        times = [int(when) for when in draw.integers(-15, 25, len(names) + 1)]
        said = [
            Announcement(max(0, when), f"meeting place {name} is occupied", partial(self._occupy, name, ""))
            for name, when in zip(sorted(self._occupied), times, strict=False)
        ]
        said.append(Announcement(max(0, times[-1]), f"insert to {depth}", partial(self._ask_for, depth)))
        place_at, depth_at = (int(when) for when in draw.integers(30, 110, 2))
        if draw.random() < self._level.corrections:
            free, taken = names[0], names[-1]
            text = f"meeting place {free} is free again and meeting place {taken} is occupied"
            said.append(Announcement(place_at, text, partial(self._occupy, taken, free)))
        if draw.random() < self._level.corrections:
            said.append(Announcement(depth_at, f"insert to {later} instead", partial(self._ask_for, later)))
        return said

    def _occupy(self, taken: str, free: str) -> None:
        self._occupied = (self._occupied | {taken}) - {free}
        goals = [_numbers(call) for call in self.left(BOARD) if call.skill == "align"] or [self._board_at]
        if any(goal is not None and self._place_of(goal) == taken for goal in goals):
            self.diverged()

    def _ask_for(self, depth: int) -> None:
        self._depth = depth
        self.goal_changed()

    def briefing(self) -> list[Segment]:
        """What holds in every episode, and where the arms can meet in this one."""
        where = [
            Segment("task", f"meeting place {name} is at {x} {y} {z} tilt {tilt}")
            for name, (x, y, z, tilt) in self._places.items()
        ]
        return [
            Segment(
                "task",
                "arm 1 brings the board to a free meeting place and arm 0 inserts the peg into its hole",
            ),
            *where,
            Segment("goal", "the peg in the hole as deep as the operator says"),
            Segment("safety", "keep out of occupied meeting places"),
        ]

    # What happens to the board.

    def disturb(self) -> None:
        """Pushes against the board once it is at its place and as long as the peg is not in it."""
        if not self._bumps or self._bumps[0].step > self.now:
            return
        bump = self._bumps.pop(0)
        if self._board_at is not None and self._gap() > 0.01:
            self._push(bump)

    def _push(self, bump: Bump) -> None:
        """The board gives way, sideways and up or down, from the place where arm 1 was told to hold it."""
        x, y, z, tilt = self._board_at or PLACES["m2"]
        pushed = (
            round(x + bump.x * 1e3), y, round(z + bump.y * 1e3), round(tilt + bump.turn * PUSHED_TILT),
        )  # fmt: skip
        self.arms[BOARD].told = self._board_pose(pushed)
        self.bumped()

    # Geometry.

    def _peg_pose(self, hole: Sighting, back: float) -> Pose:
        """Arm 0's pose when the peg points at a hole and its tip is `back` metres before it."""
        axis = _axis(hole[3])
        rotation = turn_towards(self._home[PEG], self._peg_axis, axis)
        centre = np.array(hole[:3]) / 1e3 - axis * (back + self._peg_half)
        return Pose(centre - rotation @ self._peg_offset, rotation)

    def _board_pose(self, hole: Sighting) -> Pose:
        """Arm 1's pose when its hole is there."""
        level = turn_towards(self._home[BOARD], self._board_normal, np.array([0.0, 1.0, 0.0]))
        rotation = turn_towards(level, self._board_normal, _axis(hole[3]))
        return Pose(np.array(hole[:3]) / 1e3 - rotation @ self._hole_offset, rotation)

    def _hole(self) -> Sighting:
        """Where the hole is and how it is tilted."""
        board = self.simulator.body(self.simulator.env.hole_body_id)
        normal = board.rotation[:, 2]
        tilt = np.degrees(np.arctan2(-normal[2], normal[1]))
        return (*in_millimetres(board.position + board.rotation @ HOLE_IN_BOARD), round(float(tilt)))

    def _gap(self) -> float:
        """How far the peg's tip is before the hole (negative: inside), in metres."""
        along, _, _ = self.simulator.env._compute_orientation()
        return float(along) - self._peg_half

    def _place_of(self, hole: Sighting) -> str:
        """The meeting place at which a board is held there, if any."""
        away = {
            name: float(np.linalg.norm(np.subtract(hole[:3], place[:3])))
            for name, place in self._places.items()
        }
        nearest = min(away, key=lambda name: away[name])
        return nearest if away[nearest] < AT_PLACE else ""

    def sightings(self) -> dict[str, Sighting]:
        """The hole, and the peg's tip."""
        peg = self.simulator.body(self.simulator.env.peg_body_id)
        axis = peg.rotation[:, 2]
        tilt = round(float(np.degrees(np.arctan2(-axis[2], axis[1]))))
        return {"hole": self._hole(), "peg": (*in_millimetres(peg.position + axis * self._peg_half), tilt)}

    def reached(self) -> bool:
        """robosuite's own check, and: as deep as asked for, in the middle, at a free meeting place."""
        env = self.simulator.env
        _, aside, _ = env._compute_orientation()
        place = self._place_of(self._hole())
        fits = aside < SIDE_SLACK and abs(-self._gap() - self._depth / 1e3) < DEPTH_SLACK
        return bool(fits and place and place not in self._occupied and env._check_success())

    # What the plan does.

    def contradicts(self, name: str, seen: Sighting) -> bool:
        """The hole is not where the peg is or will be aligned, and the board is not under way."""
        under_way = any(call.skill == "align" for call in self.left(BOARD))
        if name != "hole" or under_way or self._board_at is None:
            return False
        goals = [_numbers(call) for call in self.left(PEG) if call.skill == "align"] or [self._peg_at]
        left = any(call.skill == "insert" for call in self.left(PEG))
        return left and any(goal is not None and _apart(goal, seen) for goal in goals)

    def refuse(self, plan: Plan) -> str | None:
        """Poses out of reach, and skills an arm cannot do."""
        for number, calls in plan.steps:
            for call in calls:
                if call.skill == "insert" and number != PEG:
                    return f"arm {number}, {call}: only arm {PEG} has the peg"
                if call.skill == "insert" and not 0 <= float(call.args[0]) <= 120:
                    return f"arm {number}, {call}: depth is 0 to 120"
                if call.skill == "align":
                    for (axis, (low, high)), value in zip(BOX, map(float, call.args), strict=True):
                        if not low <= value <= high:
                            return f"arm {number}, {call}: {axis} is {low} to {high}"
        return None

    def motion(self, arm: Arm, call: SkillCall) -> Motion:
        """The skills of this world."""
        if call.skill == "align":
            align = self._align_peg if arm.number == PEG else self._align_board
            return align(arm, _numbers(call))
        if call.skill == "insert":
            return self._insert(arm, float(call.args[0]) / 1e3)
        return self.synchronise() if call.skill == "sync" else self.wait()

    def _align_board(self, arm: Arm, hole: Sighting) -> Motion:
        self._board_at = None
        place = self._place_of(hole)
        yield from arm.go(self._board_pose(hole), metres=0.02)
        if place in self._occupied:
            yield from arm.go(arm.home)
            raise SkillFailedError(f"meeting place {place} is occupied")
        self._board_at = hole

    def _align_peg(self, arm: Arm, hole: Sighting) -> Motion:
        if self._inside and self._peg_at is not None:
            yield from arm.go(self._peg_pose(self._peg_at, STAND_OFF), metres=0.03)
        self._inside = False
        self._peg_at = None
        yield from arm.go(self._peg_pose(hole, STAND_OFF), FAST)
        self._peg_at = hole

    def _insert(self, arm: Arm, depth: float) -> Motion:
        if self._peg_at is None:
            raise SkillFailedError("the peg is not aligned")
        self._inside = True
        for way in arm.go(self._peg_pose(self._peg_at, -depth), SLOW):
            if _lags(arm):
                yield from arm.go(self._peg_pose(self._peg_at, STAND_OFF), metres=0.03)
                raise SkillFailedError("the peg is blocked")
            yield way
        for _ in range(SUCCESS_STEPS):
            yield

    # References.

    def default_plan(self) -> Plan:
        """Meet at the usual second place and insert to a middling depth."""
        return peg_plan(PLACES["m2"], 90, board_there=False)

    def truth_plan(self) -> Plan:
        """The nearest free place, the hole as it is."""
        depth = self._depth or 90
        if self._board_at is not None and self._place_of(self._board_at) not in self._occupied:
            hole = self._hole()
            if self._peg_at is not None and not _apart(self._peg_at, hole):
                return peg_plan(None, depth, board_there=True)
            return peg_plan(hole, depth, board_there=True)
        free = next(name for name in self._places if name not in self._occupied)
        return peg_plan(self._places[free], depth, board_there=False)

    def read(self, prompt: str) -> Plan:
        """The plan of one who reads this text and knows nothing else."""
        return read_peg(prompt, PLACES["m2"])


def _numbers(call: SkillCall) -> Sighting:
    x, y, z, tilt = (round(float(value)) for value in call.args)
    return x, y, z, tilt


def _axis(tilt: float) -> Vector:
    """The direction from arm 0 to arm 1, tilted down by so many degrees."""
    angle = np.radians(tilt)
    return np.array([0.0, np.cos(angle), -np.sin(angle)])


def _apart(one: Sighting, other: Sighting) -> bool:
    """Whether a peg aligned with the one misses the other."""
    away = np.linalg.norm(np.subtract(one[:3], other[:3]))
    return bool(away > 12 or abs(one[3] - other[3]) > 6)


def _lags(arm: Arm) -> bool:
    """Whether something keeps the arm far behind where it was told to be."""
    return float(np.linalg.norm(arm.told.position - arm.pose.position)) > 0.05
