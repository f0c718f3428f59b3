"""The robots, and what they know together: their views, shared by radio, on a floor plan they all have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from brace.plan import SkillCall
from brace.worlds.babyai.layout import INTERIOR, KINDS, MOVES, ROOM_OF, WIDTH, FloorPlan

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE = range(6)
"""MiniGrid's actions."""

_NEVER = -(10**6)
_GLANCE = 6
"""A room counts as seen when all of its cells were, within so many steps."""
_AGAIN = 12
"""After so many steps a robot reports a room again, even if nothing in it has changed."""

Content = Callable[[int], tuple[str, str]]
"""What a seen cell holds: a kind (`ball`, …, `door`, or empty) and a name or a door's state."""
Sees = Callable[[int, int, tuple[str, ...]], tuple[str, ...]]
"""(agent, step, a room's contents) → what the agent's camera makes of them."""


@dataclass(eq=False, slots=True)
class Robot:
    """One robot: where it is, what it holds, what it is about."""

    index: int
    """Its number in plans."""
    cell: int
    heading: int
    """MiniGrid's: 0 right, 1 down, 2 left, 3 up."""
    carrying: Any = None
    """A MiniGrid object, or None."""
    call: SkillCall | None = None
    """The skill it is executing."""
    since: int = 0
    """When it began that skill."""
    last_seen: list[int] = field(default_factory=lambda: [_NEVER] * (WIDTH * WIDTH))
    """For each cell: the step when this robot last saw it."""
    reported: dict[int, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    """For each room: when this robot last reported it, and what."""
    room: int = 0
    """The room it is in, or came from when it stands in a door."""
    patrols: int = 0
    """The room it is on its way to look into; 0 for none."""
    patrols_since: int = 0
    path: list[int] = field(default_factory=list)
    """Where it means to go, its own cell first."""
    came_from: int = -1
    """The cell it was in before this one."""
    blocked: int = 0
    """Steps in a row in which another robot was in its way."""
    gives_way_until: int = 0
    keeps_off: frozenset[int] = frozenset()
    """Cells another robot needs, while this one gives way."""
    idle: int = 0
    """Steps without a skill, while it has jobs left."""

    @property
    def holds(self) -> str | None:
        """The name of what it carries."""
        return None if self.carrying is None else f"{self.carrying.color} {self.carrying.type}"

    @property
    def ahead(self) -> int:
        """The cell it faces."""
        return self.cell + MOVES[self.heading]

    def saw_all(self, cells: tuple[int, ...], since: int) -> bool:
        """Whether it has seen each of these cells since then."""
        seen = self.last_seen
        return all(seen[cell] >= since for cell in cells)

    def enter(self) -> bool:
        """Take note of the room it is in; True when it is another one."""
        room = ROOM_OF[self.cell]
        if not room or room == self.room:
            return False
        self.room = room
        return True


class Team:
    """Objects and doors as last seen, and who is not to be believed."""

    def __init__(self, floor: FloorPlan, content: Content, sees: Sees) -> None:
        self.floor = floor
        self.objects: dict[int, str] = {}
        self.doors: dict[int, str] = {}
        """For each door seen: open, closed or locked."""
        self.locked: set[int] = set()
        self.seen: dict[int, int] = {}
        """For each room: when a robot with a good camera last saw all of it, as far as they know."""
        self.faulty: set[int] = set()
        """Whose camera was declared faulty."""
        self._content, self._sees = content, sees

    def look(
        self, robot: Robot, view: Iterable[int], now: int
    ) -> tuple[list[str], list[tuple[int, tuple[str, ...]]]]:
        """Take in what a robot sees. Returns what it says of doors, and the rooms it reports."""
        said, rooms = [], set()
        for cell in view:
            robot.last_seen[cell] = now
            # As it is, also through a faulty camera: only what is reported is wrong.
            kind, name = self._content(cell)
            room = ROOM_OF[cell]
            if room:
                rooms.add(room)
                if kind in KINDS:
                    self.objects[cell] = name
                else:
                    self.objects.pop(cell, None)
            elif kind == "door" and self.doors.get(cell) != name:
                before, self.doors[cell] = self.doors.get(cell), name
                (self.locked.add if name == "locked" else self.locked.discard)(cell)
                # Only locks are worth a message: robots open other doors by themselves.
                if "locked" in (before, name):
                    said.append(f"{self.floor.doors[cell]} is {'locked' if name == 'locked' else 'open'}")
        return said, [report for room in sorted(rooms) for report in self._report(robot, room, now)]

    def _report(self, robot: Robot, room: int, now: int) -> list[tuple[int, tuple[str, ...]]]:
        inside = INTERIOR[room]
        if not robot.saw_all(inside, now - _GLANCE):
            return []
        names = tuple(sorted(self.objects[cell] for cell in inside if cell in self.objects))
        when, before = robot.reported.get(room, (-_AGAIN, None))
        if robot.index not in self.faulty:
            self.seen[room] = now
        if names == before and now - when < _AGAIN:
            return []
        # As it is: a faulty camera's list differs in every step and would always be news.
        robot.reported[room] = now, names
        return [(room, self._sees(robot.index, now, names))]

    def find(self, robot: Robot, name: str, room: int) -> int | None:
        """Where in a room this robot itself has seen an object since it began its skill."""
        for cell in INTERIOR[room]:
            if self.objects.get(cell) == name and robot.last_seen[cell] >= robot.since:
                return cell
        return None

    def reachable(self, room: int) -> set[int]:
        """The rooms one can get to from here, through doors not known to be locked."""
        return self.floor.reach((room,), self.locked)
