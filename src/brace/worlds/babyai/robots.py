"""A robot: where it is, what it holds, what it is about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from brace.plan import SkillCall
from brace.worlds.babyai.layout import MOVES, ROOM_OF, WIDTH

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE = range(6)
"""MiniGrid's actions."""

_NEVER = -(10**6)


@dataclass(slots=True)
class Robot:
    """One robot. Headings are MiniGrid's: 0 right, 1 down, 2 left, 3 up."""

    index: int
    cell: int
    heading: int
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
