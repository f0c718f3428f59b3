"""How a robot gets where it wants: the shortest known way, doors on it, and other robots in it."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from brace.worlds.babyai.layout import MOVES, WIDTH
from brace.worlds.babyai.team import DROP, FORWARD, LEFT, RIGHT, TOGGLE, Robot, Team

ANY = -1
"""No heading in particular."""
_DETOUR = 2
"""Steps a way round another robot may cost; otherwise one waits."""
_PATIENCE = 4
"""Steps a robot waits for one that goes first, before it asks all the same."""
_GIVING_WAY, _AHEAD = 5, 8
"""So many steps a robot gives way to another, on so many cells of its way."""


class Aim(NamedTuple):
    """Where to stand, facing where, and what to do there."""

    stands: Mapping[int, int]
    """For each cell that will do: the heading there."""
    action: int | None
    """None: just be there."""
    room: int
    """The room it is all about."""


def _route(
    neighbours: Sequence[Sequence[int]], start: int, goals: Container[int], blocked: Container[int]
) -> list[int] | None:
    """The cells of a shortest way, start included; None when there is none."""
    if start in goals:
        return [start]
    came = {start: start}
    queue = [start]
    for here in queue:
        for cell in neighbours[here]:
            if cell in came or cell in blocked:
                continue
            came[cell] = here
            if cell in goals:
                way = [cell]
                while way[-1] != start:
                    way.append(came[way[-1]])
                return way[::-1]
            queue.append(cell)
    return None


def _turn(heading: int, wanted: int) -> int:
    """Which way to turn to face there."""
    return LEFT if (wanted - heading) % 4 == 3 else RIGHT


class Driver:
    """Turns aims into actions for all robots of a team."""

    def __init__(self, team: Team, robots: Sequence[Robot]) -> None:
        self._team, self._robots = team, robots
        self._neighbours = team.floor.neighbours
        self.order: Sequence[Robot] = robots
        """Who goes first in this step."""
        self.blocked = 0
        """How often a robot was in another's way."""

    def drive(self, robot: Robot, aim: Aim, now: int) -> int | None:
        """The next action towards an aim; None to stand still. LookupError when no way is known."""
        way = _route(self._neighbours, robot.cell, aim.stands, self._obstacles())
        if way is None:
            raise LookupError(aim.room)
        robot.path = way
        if len(way) > 1:
            return self._go(robot, aim, way, now)
        wanted = aim.stands[robot.cell]
        if wanted not in (ANY, robot.heading):
            return _turn(robot.heading, wanted)
        if aim.action == DROP:
            # A robot on the cell, or one that would be shut in.
            room = [other for other in self._robots if other is not robot and other.room == robot.room]
            walkable = self._team.floor.open_after(robot.ahead, self._team.objects.keys())
            for other in room:
                if other.cell not in walkable and other.cell not in self._team.floor.doors:
                    self._meet(robot, other, [robot.cell, robot.ahead], now)
                    return None
        robot.blocked = 0
        return aim.action

    def stand_aside(self, robot: Robot, now: int) -> int | None:
        """Get off the cells that another robot needs."""
        taken = {other.cell for other in self._robots if other is not robot}
        floor = self._team.floor
        # Before a door it would soon be in the way again.
        free = _Free(robot.keeps_off | floor.fronts | taken, floor.doors)
        way = _route(self._neighbours, robot.cell, free, self._obstacles() | taken)
        if way is None:
            # Everything behind it is taken too: those must move as well.
            way = _route(self._neighbours, robot.cell, _Free(robot.keeps_off, floor.doors), self._obstacles())
        if way is None or len(way) == 1:
            robot.path = [robot.cell]
            return None
        robot.path = way
        return self._step_to(robot, way, now)

    def _obstacles(self) -> set[int]:
        return self._team.objects.keys() | self._team.locked

    def _go(self, robot: Robot, aim: Aim, way: list[int], now: int) -> int | None:
        near = [other for other in self._robots if other is not robot and _near(robot.cell, other.cell)]
        in_way = [other for other in near if other.cell in way]
        if in_way:
            cells = {other.cell for other in near}
            goals = {cell for cell in aim.stands if cell not in cells}
            round_them = _route(self._neighbours, robot.cell, goals, self._obstacles() | cells)
            # Never straight back: from there the other way would look better again.
            if (
                round_them is not None
                and len(round_them) <= len(way) + _DETOUR
                and round_them[1:2] != [robot.came_from]
            ):
                way = robot.path = round_them
            else:
                for other in in_way:
                    if self._goes_first(robot, other):
                        _ask(other, way, now)
        return self._step_to(robot, way, now)

    def _goes_first(self, robot: Robot, other: Robot) -> bool:
        return self.order.index(robot) < self.order.index(other)

    def _step_to(self, robot: Robot, way: list[int], now: int) -> int | None:
        ahead = way[1]
        wanted = MOVES.index(ahead - robot.cell)
        if robot.heading != wanted:
            return _turn(robot.heading, wanted)
        if self._team.doors.get(ahead) == "closed":
            return TOGGLE
        for other in self._robots:
            if other.cell == ahead:
                self._meet(robot, other, way, now)
                return None
        robot.blocked = 0
        return FORWARD

    def _meet(self, robot: Robot, other: Robot, way: list[int], now: int) -> None:
        """Somebody is in the way: the one with less right of way gets off the other's path."""
        self.blocked += 1
        robot.blocked += 1
        if self._goes_first(robot, other) or robot.blocked > _PATIENCE:
            _ask(other, way, now)
        elif len(other.path) > 1 and robot.cell in other.path:
            _ask(robot, other.path, now)


def _ask(robot: Robot, way: list[int], now: int) -> None:
    robot.keeps_off = frozenset(way[:_AHEAD])
    robot.gives_way_until = now + _GIVING_WAY


class _Free:
    """All cells but these."""

    def __init__(self, taken: Container[int], doors: Container[int]) -> None:
        self._taken, self._doors = taken, doors

    def __contains__(self, cell: object) -> bool:
        return cell not in self._taken and cell not in self._doors


def _near(cell: int, other: int) -> bool:
    (y, x), (v, u) = divmod(cell, WIDTH), divmod(other, WIDTH)
    return abs(y - v) + abs(x - u) <= 3
