"""The building's geometry, as everybody knows it, and the words of this world."""

from __future__ import annotations

from collections.abc import Container, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from brace.plan import Arg, Skill, SkillSet

SIDE = 3
ROOM_SIZE = 6
"""Cells from wall to wall, walls included: neighbouring rooms share one."""
WIDTH = SIDE * (ROOM_SIZE - 1) + 1
MOVES = (1, WIDTH, -1, -WIDTH)
"""What a step right, down, left or up adds to a cell's number, in MiniGrid's order of headings."""
ROOMS = tuple(range(1, SIDE * SIDE + 1))


def _room_of(cell: int) -> int:
    y, x = divmod(cell, WIDTH)
    wall = ROOM_SIZE - 1
    return 0 if x % wall == 0 or y % wall == 0 else y // wall * SIDE + x // wall + 1


ROOM_OF = tuple(_room_of(cell) for cell in range(WIDTH * WIDTH))
"""The room of each cell; 0 for walls and doors."""
INTERIOR = {room: tuple(cell for cell, at in enumerate(ROOM_OF) if at == room) for room in ROOMS}
ADJACENT = tuple(
    (room, other)
    for room in ROOMS
    for other in (room + 1, room + SIDE)
    if other in ROOMS and (other == room + SIDE or room % SIDE)
)
"""The pairs of rooms that share a wall."""

COLOURS = ("blue", "green", "grey", "purple", "red", "yellow")
KINDS = ("ball", "box", "key")
OBJECTS = tuple(f"{colour} {kind}" for colour in COLOURS for kind in KINDS)
ROOM_NAMES = tuple(f"room {room}" for room in ROOMS)
NAMES = {"object": OBJECTS, "room": ROOM_NAMES, "beyond": ROOM_NAMES}
MAX_AGENTS = 8
MAX_CARRIERS = 2

_OBJECT, _ROOM = Arg("object", "name"), Arg("room", "name")
SKILLS = (
    Skill("pickup", (_OBJECT, _ROOM), "go to that room and take the object"),
    Skill("putnext", (_OBJECT, _ROOM), "carry what it holds to that room and put it down next to the object"),
    Skill("search", (_OBJECT,), "patrol until somebody reports the object"),
    Skill("unlock", (_ROOM, Arg("beyond", "name")), "open the locked door between two rooms with its key"),
    Skill("drop", (), "put down what it holds"),
    Skill("wait", (), "stand aside for a moment"),
)


def skill_set(agents: int) -> SkillSet:
    """What a plan for so many agents may say."""
    return SkillSet(SKILLS, agents)


def room_number(name: str) -> int:
    """`room 3` → 3."""
    return int(name.rsplit(maxsplit=1)[-1])


@dataclass(frozen=True, slots=True)
class Door:
    """A door in the wall between two rooms, the lower number first."""

    cell: int
    rooms: tuple[int, int]
    colour: str

    def __str__(self) -> str:
        return f"the {self.colour} door between room {self.rooms[0]} and room {self.rooms[1]}"

    def beyond(self, room: int) -> int:
        """The room on the other side."""
        return sum(self.rooms) - room

    @property
    def key(self) -> str:
        """What opens it when it is locked."""
        return f"{self.colour} key"


@dataclass(frozen=True)
class FloorPlan:
    """Where walls and doors are: what every robot knows before it has seen anything."""

    doors: dict[int, Door]
    between: dict[tuple[int, int], Door] = field(init=False)
    neighbours: tuple[tuple[int, ...], ...] = field(init=False)
    """For each cell where one can be: the cells beside it, with nothing in them or a door."""
    fronts: frozenset[int] = field(init=False)
    """The cells in front of doors, which must stay free."""

    def __post_init__(self) -> None:
        floor = {cell for cell, room in enumerate(ROOM_OF) if room} | set(self.doors)
        # A frozen dataclass sets its derived fields in no other way.
        set_field = object.__setattr__
        set_field(self, "between", {door.rooms: door for door in self.doors.values()})
        set_field(
            self,
            "neighbours",
            tuple(
                tuple(cell + move for move in MOVES if cell + move in floor) if cell in floor else ()
                for cell in range(WIDTH * WIDTH)
            ),
        )
        set_field(
            self, "fronts", frozenset(beside for door in self.doors for beside in self.neighbours[door])
        )

    def reach(self, rooms: Iterable[int], locked: Container[int]) -> set[int]:
        """The rooms one can get to from these, not through the locked doors."""
        seen = set(rooms)
        todo = list(seen)
        while todo:
            room = todo.pop()
            for door in self.doors.values():
                if room in door.rooms and door.cell not in locked:
                    other = door.beyond(room)
                    if other not in seen:
                        seen.add(other)
                        todo.append(other)
        return seen

    def is_crossing(self, room: int) -> bool:
        """Whether doors lead to all sides."""
        return sum(room in door.rooms for door in self.doors.values()) == len(MOVES)

    def first_locked(self, room: int, goal: int, locked: Container[int]) -> Door | None:
        """The first locked door on the way with the fewest of them (and then the fewest rooms), if any."""
        costs, came = {goal: (0, 0)}, dict[int, Door]()
        queue = [goal]
        for here in queue:
            locks, rooms = costs[here]
            for door in self.doors.values():
                if here in door.rooms:
                    other, cost = door.beyond(here), (locks + (door.cell in locked), rooms + 1)
                    if cost < costs.get(other, (len(self.doors), 0)):
                        costs[other], came[other] = cost, door
                        queue.append(other)
        while room != goal:
            if came[room].cell in locked:
                return came[room]
            room = came[room].beyond(room)
        return None

    def walkable(self, room: int, occupied: Container[int]) -> set[int]:
        """The cells of a room one can get to from its first door."""
        todo = [cell for cell in INTERIOR[room] if cell in self.fronts][:1]
        flooded = set(todo)
        while todo:
            for beside in self.neighbours[todo.pop()]:
                if ROOM_OF[beside] == room and beside not in flooded and beside not in occupied:
                    flooded.add(beside)
                    todo.append(beside)
        return flooded

    def open_after(self, cell: int, occupied: AbstractSet[int]) -> set[int]:
        """What can still be walked on in a room when an object is put here; empty if it must not be.

        Every door must stay free, all of them joined, and every object of the room within reach.
        """
        room = ROOM_OF[cell]
        if not room or cell in occupied or cell in self.fronts:
            return set()
        then = occupied | {cell}
        flooded = self.walkable(room, then)
        for here in INTERIOR[room]:
            cut_off = here in self.fronts and here not in flooded
            if cut_off or (here in then and not any(n in flooded for n in self.neighbours[here])):
                return set()
        return flooded

    def can_land(self, cell: int, occupied: AbstractSet[int]) -> bool:
        """Whether something more may be put down next to what lies here."""
        return any(self.open_after(beside, occupied) for beside in self.neighbours[cell])
