"""What the robots know together: each one's view, shared by radio, on a floor plan they all have."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from brace.worlds.babyai.layout import INTERIOR, KINDS, ROOM_OF, FloorPlan
from brace.worlds.babyai.robots import Robot

GLANCE = 6
"""A room counts as seen when all of its cells were, within so many steps."""
AGAIN = 12
"""After so many steps a robot reports a room again, even if nothing in it has changed."""

Content = Callable[[int], tuple[str, str]]
"""What a seen cell holds: a kind (`ball`, …, `door`, or empty) and a name or a door's state."""
Misname = Callable[[Robot, tuple[str, ...]], tuple[str, ...]]
"""What a robot's camera makes of a room's contents."""


class Team:
    """Objects and doors as last seen, and who is not to be believed."""

    def __init__(self, floor: FloorPlan, content: Content, misname: Misname) -> None:
        self.floor = floor
        self.objects: dict[int, str] = {}
        self.doors: dict[int, str] = {}
        """For each door seen: open, closed or locked."""
        self.locked: set[int] = set()
        self.seen: dict[int, int] = {}
        """For each room: when a robot with a good camera last saw all of it, as far as they know."""
        self.faulty: set[int] = set()
        """Whose camera was declared faulty."""
        self._content, self._misname = content, misname

    def look(
        self, robot: Robot, view: Iterable[int], now: int
    ) -> tuple[list[str], list[tuple[int, tuple[str, ...]]]]:
        """Take in what a robot sees. Returns what it says of doors, and the rooms it reports."""
        said, rooms = [], set()
        for cell in view:
            robot.last_seen[cell] = now
            kind, name = self._content(cell)
            room = ROOM_OF[cell]
            if room:
                rooms.add(room)
                if kind in KINDS:
                    self.objects[cell] = name
                else:
                    self.objects.pop(cell, None)
            elif kind == "door" and self.doors.get(cell) != name:
                said += self._door_news(cell, name)
        return said, [report for room in sorted(rooms) for report in self._report(robot, room, now)]

    def _door_news(self, cell: int, state: str) -> list[str]:
        before = self.doors.get(cell)
        self.doors[cell] = state
        if state == "locked":
            self.locked.add(cell)
            return [f"{self.floor.doors[cell]} is locked"]
        self.locked.discard(cell)
        return [f"{self.floor.doors[cell]} is open"] if before == "locked" else []

    def _report(self, robot: Robot, room: int, now: int) -> list[tuple[int, tuple[str, ...]]]:
        inside = INTERIOR[room]
        if not robot.saw_all(inside, now - GLANCE):
            return []
        names = tuple(sorted(self.objects[cell] for cell in inside if cell in self.objects))
        when, before = robot.reported.get(room, (-AGAIN, None))
        if robot.index not in self.faulty:
            self.seen[room] = now
        if names == before and now - when < AGAIN:
            return []
        robot.reported[room] = now, names
        return [(room, self._misname(robot, names))]

    def find(self, robot: Robot, name: str, room: int) -> int | None:
        """Where in a room this robot itself has seen an object since it began its skill."""
        for cell in INTERIOR[room]:
            if self.objects.get(cell) == name and robot.last_seen[cell] >= robot.since:
                return cell
        return None

    def reachable(self, room: int) -> set[int]:
        """The rooms one can get to from here, through doors not known to be locked."""
        return self.floor.reach((room,), self.locked)
