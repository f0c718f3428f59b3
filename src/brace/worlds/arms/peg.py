"""One arm holds a board with a hole, the other puts a peg into it (robosuite's TwoArmPegInHole)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from brace.context import Segment
from brace.plan import Arg, Plan, Skill, SkillCall, SkillSet
from brace.registry import worlds
from brace.worlds.arms.executor import FAST, SLOW, Arm, Motion, SkillFailedError
from brace.worlds.arms.reading import peg_plan, read_peg
from brace.worlds.arms.surroundings import Announcement, Sighting, Trouble
from brace.worlds.arms.things import BOARD, PEG, Fitting
from brace.worlds.arms.world import PLACE_ARGS, SYNC, WAIT, ArmsWorld, Box, arms_info, outside

SKILLS = SkillSet(
    [
        Skill(
            "align",
            (*PLACE_ARGS, Arg("tilt", "number", resolution=5)),
            "arm 1 brings the hole there, arm 0 the peg in front of it, in mm and degrees",
        ),
        SYNC,
        Skill("insert", (Arg("depth", "number", resolution=5),), "push the peg in, so many mm deep"),
        WAIT,
    ],
    agents=2,
)  # fmt: skip

PLACES: dict[str, Sighting] = {
    "m1": (-110, 100, 1280, 40),
    "m2": (0, 100, 1300, 45),
    "m3": (90, 100, 1290, 50),
    "m4": (-10, 60, 1180, 40),
}
"""About where the arms can meet; each episode shifts these a little."""
PLACE_SHIFT = (12, 12, 12, 4)
DEPTHS = (50, 70, 90, 110)
DEPTH_SLACK, SIDE_SLACK = 0.009, 0.015
"""How exactly the peg must sit, in metres."""
STAND_OFF = 0.12
"""How far before the hole the peg's tip is when it is aligned, in metres."""
AT_PLACE = 80
"""A board this near to a place (mm) is there, however it was pushed."""
FIT_MM, FIT_DEGREES = 6, 4
"""A board that is brought to a place must fit it this well: where it is stands in the task."""
BOX: Box = {"x": (-200, 200), "y": (-20, 220), "z": (1050, 1420), "tilt": (25, 65)}
"""Where both arms can meet, in mm and degrees."""
MISS_MM, MISS_DEGREES = 12, 6
"""A peg aligned this far off does not fit."""
BLOCKED_M = 0.05
"""A peg that is this far behind where it was told to be has met something."""
PUSHED_TILT = 0.3
"""A push that would turn something lying by one degree tilts the board by this much."""


OCCUPIED = {"easy": 1, "normal": 2, "hard": 3}
"""How many of the four places are."""
# So often, because otherwise a slow planner does as well as a fast one.
COMINGS = {"normal": (2.0, 3.0), "strong": (1.5, 2.0)}
"""Seconds between two changes of the occupied places: at least, and on average in addition."""


@worlds.register("peg-v1")
@dataclass(eq=False)
class PegWorld(ArmsWorld):
    """Meeting places of which some are occupied, a depth said by the operator, pushes against the board."""

    info = arms_info("one arm puts a peg into a board the other holds", "peg-in-hole")
    id = "peg-v1"
    skills = SKILLS
    scene = ("TwoArmPegInHole", "agentview")
    angle = ("tilt", 360)
    steps: ClassVar = {"easy": 440, "normal": 360, "hard": 330}
    troubles: ClassVar = {
        "normal": Trouble((0.6, 1.5), (0.03, 0.06), (5.0, 25.0)),
        "strong": Trouble((0.4, 1.0), (0.04, 0.06), (10.0, 30.0)),
    }

    # How an episode begins.

    def place(self) -> None:
        """The meeting places, which are occupied, the depth, and all that will happen."""
        draw = self.stream(2)
        self._fitting = Fitting(self.simulator)
        self._places: dict[str, Sighting] = {}
        for name, usual in PLACES.items():
            x, y, z, tilt = (
                int(at + draw.integers(-far, far + 1)) for at, far in zip(usual, PLACE_SHIFT, strict=True)
            )
            self._places[name] = (x, y, z, tilt)
        self._depth = 0
        self._peg_at: Sighting | None = None
        self._board_at: Sighting | None = None
        self._inside = False
        self.announcements = self._announcements(draw)

    def _announcements(self, draw: np.random.Generator) -> list[Announcement]:
        self._occupied = {str(name) for name in draw.permutation(tuple(PLACES))[: OCCUPIED[self.difficulty]]}
        depth, later = (int(one) for one in draw.choice(DEPTHS, 2, replace=False))
        # Draws below 0 make it likelier that it is said at the very beginning.
        times = [max(0, int(when)) for when in draw.integers(-8, 25, len(PLACES) + 1)]
        said = [
            Announcement(when, f"meeting place {name} is occupied", partial(self._occupy, name, ""))
            for name, when in zip(sorted(self._occupied), times, strict=False)
        ]
        said.append(Announcement(times[-1], f"insert to {depth}", partial(self._ask_for, depth)))
        if draw.random() < self.corrections:
            text = f"insert to {later} instead"
            said.append(Announcement(int(draw.integers(30, 110)), text, partial(self._ask_for, later)))
        return said + self._traffic(self.stream(5))

    def _traffic(self, draw: np.random.Generator) -> list[Announcement]:
        """Others come and go: one place becomes free and another occupied."""
        # After all that is said at the beginning: that comes before step 25.
        times, when, gap = [], 25.0, COMINGS.get(self.disturbance)
        while gap is not None and when < self.max_steps:
            when += (gap[0] + draw.exponential(gap[1])) / self.dt
            times.append(int(when))
        said, occupied = [], set(self._occupied)
        for step in times:
            # Sorted, because the order of a set of strings differs from process to process.
            free = str(draw.choice(sorted(occupied)))
            taken = str(draw.choice(sorted(set(PLACES) - occupied)))
            occupied = (occupied - {free}) | {taken}
            text = f"meeting place {free} is free again and meeting place {taken} is occupied"
            said.append(Announcement(step, text, partial(self._occupy, taken, free)))
        return said

    def _occupy(self, taken: str, free: str) -> None:
        self._occupied = (self._occupied | {taken}) - {free}
        goal = self._goal_of(BOARD, self._board_at)
        if goal is not None and self._place_of(goal) == taken:
            self.diverged()

    def _ask_for(self, depth: int) -> None:
        self._depth = depth
        self.goal_changed()

    def briefing(self) -> list[Segment]:
        """What holds in every episode, and where the arms can meet in this one."""
        places = self._places.items()
        where = [f"meeting place {name} is at {x} {y} {z} tilt {tilt}" for name, (x, y, z, tilt) in places]
        return [
            Segment("task", "arm 1 brings the board to a free meeting place"),
            Segment("task", "arm 0 inserts the peg into its hole"),
            *(Segment("task", line) for line in where),
            Segment("goal", "the peg in the hole as deep as the operator says"),
            Segment("safety", "keep out of occupied meeting places"),
        ]

    # What happens to the board.

    def disturb(self) -> None:
        """Pushes against the board once it is at its place and as long as the peg is not in it."""
        if not self.bump_is_due:
            return
        bump = self._bumps.pop(0)
        if self._board_at is not None and self._fitting.depth() < -0.01:
            # From where arm 1 was told to hold it: pushes do not add up.
            x, y, z, tilt = self._board_at
            pushed = (
                round(x + bump.x * 1e3), y, round(z + bump.y * 1e3), round(tilt + bump.turn * PUSHED_TILT),
            )  # fmt: skip
            self.arms[BOARD].told = self._fitting.board_pose(pushed)
            self.bumped()

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
        return {"hole": self._fitting.hole(), "peg": self._fitting.tip()}

    def reached(self) -> bool:
        """robosuite's own check, and: as deep as asked for, in the middle, at a free meeting place."""
        if abs(self._fitting.depth() - self._depth / 1e3) > DEPTH_SLACK or self._fitting.aside() > SIDE_SLACK:
            return False
        place = self._place_of(self._fitting.hole())
        free = place != "" and place not in self._occupied
        return free and bool(self.simulator.env._check_success())

    # What the plan does.

    def _goal_of(self, arm: int, now: Sighting | None) -> Sighting | None:
        """Where the arm is still to align itself, or where it is aligned."""
        call = self.next_call(arm, "align")
        return now if call is None else _numbers(call)

    def contradicts(self, name: str, seen: Sighting) -> bool:
        """The hole is not where the peg is or will be aligned, and the board is not under way."""
        if name != "hole" or self._board_at is None or self.next_call(BOARD, "align") is not None:
            return False
        goal = self._goal_of(PEG, self._peg_at)
        return self.next_call(PEG, "insert") is not None and goal is not None and _apart(goal, seen)

    def objection(self, arm: int, call: SkillCall) -> str | None:
        """Poses out of reach, and skills an arm cannot do."""
        if call.skill == "insert" and arm != PEG:
            return f"{call}: only arm {PEG} has the peg"
        return outside({"align": BOX, "insert": {"depth": (0, 120)}}.get(call.skill, {}), call)

    def motion(self, arm: Arm, call: SkillCall) -> Motion:
        """The skills of this world."""
        if call.skill == "align":
            align = self._align_peg if arm.number == PEG else self._align_board
            return align(arm, _numbers(call))
        if call.skill == "insert":
            return self._insert(arm, float(call.args[0]) / 1e3)
        return super().motion(arm, call)

    def _align_board(self, arm: Arm, hole: Sighting) -> Motion:
        self._board_at = None
        place = self._place_of(hole)
        yield from arm.go(self._fitting.board_pose(hole), metres=0.02)
        if place in self._occupied:
            yield from arm.go(arm.home)
            raise SkillFailedError(f"meeting place {place} is occupied")
        off = np.abs(np.subtract(list(self._places.values()), hole))
        # Anywhere else a pose learnt by heart would do in every episode.
        if not np.any((off[:, :3].max(axis=1) <= FIT_MM) & (off[:, 3] <= FIT_DEGREES)):
            yield from arm.go(arm.home)
            raise SkillFailedError("there is no meeting place")
        self._board_at = hole

    def _align_peg(self, arm: Arm, hole: Sighting) -> Motion:
        # First straight back: sideways the hole holds the peg.
        if self._inside and self._peg_at is not None:
            yield from arm.go(self._fitting.peg_pose(self._peg_at, STAND_OFF), metres=0.03)
        self._inside = False
        self._peg_at = None
        yield from arm.go(self._fitting.peg_pose(hole, STAND_OFF), FAST)
        self._peg_at = hole

    def _insert(self, arm: Arm, depth: float) -> Motion:
        if self._peg_at is None:
            raise SkillFailedError("the peg is not aligned")
        self._inside = True
        for _ in arm.go(self._fitting.peg_pose(self._peg_at, -depth), SLOW):
            # Something keeps the arm far behind where it was told to be.
            if np.linalg.norm(arm.told.position - arm.pose.position) > BLOCKED_M:
                yield from arm.go(self._fitting.peg_pose(self._peg_at, STAND_OFF), metres=0.03)
                raise SkillFailedError("the peg is blocked")
            yield
        yield from self.stay()

    # References.

    def default_plan(self) -> Plan:
        """Meet at the usual second place and insert to a middling depth."""
        return peg_plan(PLACES["m2"], 90, board_there=False)

    def truth_plan(self) -> Plan:
        """The nearest free place, the hole as it is."""
        depth = self._depth or 90
        if self._board_at is not None and self._place_of(self._board_at) not in self._occupied:
            hole = self._fitting.hole()
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


def _apart(one: Sighting, other: Sighting) -> bool:
    """Whether a peg aligned with the one misses the other."""
    away = np.linalg.norm(np.subtract(one[:3], other[:3]))
    return bool(away > MISS_MM or abs(one[3] - other[3]) > MISS_DEGREES)
