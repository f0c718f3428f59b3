"""What a skill aims at next, from its arguments and what the robots have seen: never from the simulator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from brace.errors import BraceError
from brace.plan import SkillCall
from brace.worlds.babyai.layout import INTERIOR, MOVES, ROOM_OF, ROOMS, SIDE, room_number
from brace.worlds.babyai.moving import ANY, Aim
from brace.worlds.babyai.team import DROP, PICKUP, RIGHT, TOGGLE, Robot, Team

_WAIT_STEPS = 6
_SEARCH_STEPS, _SEARCH_AT_LEAST = 40, 8
_SEARCHED = 50
"""When every room within reach was seen in so many steps, a thing must be behind a locked door."""
_TOO_LONG = 30
"""A robot that has not got to the room it patrols by then is held up: another one may go."""
_FAR = 6
"""What one room's distance weighs on patrol, in steps since a room was seen."""


class SkillFailedError(BraceError):
    """A skill cannot be done; the text says why."""


class Skills:
    """The skills of all robots of a team."""

    def __init__(self, team: Team, robots: Sequence[Robot]) -> None:
        self._team, self._robots = team, robots
        self._floor = team.floor
        self.reported: dict[str, int] = {}
        """For each object: when somebody last reported it."""

    def aim(self, robot: Robot, call: SkillCall, now: int) -> Aim | str:
        """What to do next for this skill, or, when it has ended well, what to say of that."""
        match call.skill, call.args:
            case "pickup", (name, room):
                return self._pickup(robot, name, room_number(room))
            case "putnext", (name, room):
                return self._putnext(robot, name, room_number(room))
            case "search", (name,):
                return self._search(robot, name, now)
            case "unlock", (room, beyond):
                return self._unlock(robot, room_number(room), room_number(beyond))
        return self._drop(robot) if call.skill == "drop" else self._wait(robot, now)

    def _wait(self, robot: Robot, now: int) -> Aim | str:
        if now - robot.since > _WAIT_STEPS:
            return "waited"
        aside = [cell for cell in INTERIOR[robot.room] if cell not in self._floor.fronts]
        return Aim(self._standing(aside), None, robot.room)

    def patrol(self, robot: Robot, now: int) -> Aim:
        """Look into the room that was not seen for longest and is not too far."""
        seen, room, faulty = self._team.seen, robot.patrols, self._team.faulty
        if robot.index in faulty:
            # What it sees does not count for the others, so it would stay for ever where they have not been.
            seen = {room: when for room, (when, _) in robot.reported.items()}
        arrived = room and (
            seen.get(room, -1) >= robot.patrols_since or robot.saw_all(INTERIOR[room], robot.patrols_since)
        )
        reachable = self._team.reachable(robot.room)
        if not room or arrived or room not in reachable:
            others = {
                other.patrols
                for other in self._robots
                if other is not robot and other.index not in faulty and _is_looking(other, now)
            }
            # On to another room, if possible one that nobody else is going to.
            elsewhere = reachable - {robot.room} or reachable
            rooms = elsewhere - others or elsewhere
            robot.patrols = max(
                rooms,
                # -60: a room nobody has seen comes first, however far it is.
                key=lambda room: (now - seen.get(room, -60) - _FAR * _apart(robot.room, room), -room),
            )
            robot.patrols_since = now
        return self._approach(robot.patrols)

    def _pickup(self, robot: Robot, name: str, room: int) -> Aim | str:
        if robot.holds == name:
            return f"holds {name}"
        if robot.holds is not None:
            raise SkillFailedError(f"cannot pick up {name}: holds {robot.holds}")
        cell = self._team.find(robot, name, room)
        if cell is not None:
            return Aim(self._facing(cell), PICKUP, room)
        return self._look_for(robot, name, room)

    def _putnext(self, robot: Robot, name: str, room: int) -> Aim | str:
        if robot.holds is None:
            raise SkillFailedError(f"cannot put down next to {name}: holds nothing")
        cell = self._team.find(robot, name, room)
        if cell is None:
            return self._look_for(robot, name, room)
        stands = self._around(robot, self._floor.neighbours[cell])
        if not stands:
            raise SkillFailedError(f"no free cell next to {name} in room {room}")
        return Aim(stands, DROP, room)

    def _drop(self, robot: Robot) -> Aim | str:
        if robot.holds is None:
            return "holds nothing"
        inside, objects = INTERIOR[robot.room], self._team.objects
        apart = [cell for cell in inside if not any(n in objects for n in self._floor.neighbours[cell])]
        stands = self._around(robot, apart) or self._around(robot, inside)
        if not stands:
            raise SkillFailedError(f"no free cell in room {robot.room}")
        return Aim(stands, DROP, robot.room)

    def _unlock(self, robot: Robot, room: int, beyond: int) -> Aim | str:
        door = self._floor.between[min(room, beyond), max(room, beyond)]
        known = self._team.doors.get(door.cell, "locked")
        # What was seen before the skill began may be no longer so.
        if known != "locked" and robot.last_seen[door.cell] >= robot.since:
            return f"unlocked {door}"
        if robot.holds != door.key:
            raise SkillFailedError(f"cannot unlock {door}: holds {robot.holds or 'nothing'}")
        return Aim(self._facing(door.cell), TOGGLE, room)

    def _search(self, robot: Robot, name: str, now: int) -> Aim | str:
        if self.reported.get(name, -1) > robot.since:
            return f"found {name}"
        if now - robot.since > _SEARCH_STEPS:
            return f"{name} not found yet"
        reachable = self._team.reachable(robot.room)
        if (
            len(reachable) < len(ROOMS)
            and now - robot.since > _SEARCH_AT_LEAST
            and all(self._team.seen.get(room, -_SEARCHED) >= now - _SEARCHED for room in reachable)
        ):
            hidden = min(set(ROOMS) - reachable, key=lambda room: (_apart(robot.room, room), room))
            raise SkillFailedError(self.no_way(robot, hidden))
        return self.patrol(robot, now)

    def no_way(self, robot: Robot, room: int) -> str:
        """Why there is no way to a room: the first locked door on the shortest way there."""
        door = self._floor.first_locked(robot.room, room, self._team.locked)
        return f"no way to room {room}: {'blocked' if door is None else f'{door} is locked'}"

    def _look_for(self, robot: Robot, name: str, room: int) -> Aim | str:
        if robot.saw_all(INTERIOR[room], robot.since):
            raise SkillFailedError(f"no {name} in room {room}")
        return self._approach(room)

    def _approach(self, room: int) -> Aim:
        # In the room it turns on the spot, to see also what lies behind it.
        return Aim(self._standing(INTERIOR[room]), RIGHT, room)

    def _standing(self, cells: Iterable[int]) -> dict[int, int]:
        return {cell: ANY for cell in cells if cell not in self._team.objects}

    def _facing(self, cell: int) -> dict[int, int]:
        """Where to stand to face a cell, and the heading there."""
        floor, objects = self._floor.neighbours, self._team.objects
        return {
            cell - move: heading
            for heading, move in enumerate(MOVES)
            if cell - move in floor[cell] and cell - move not in objects
        }

    def _around(self, robot: Robot, cells: Iterable[int]) -> dict[int, int]:
        """Where to stand to put something down on one of these cells, if it may be put there."""
        others = {other.cell for other in self._robots if other is not robot}
        # When only other robots are in the way, it gets ready there until they are gone.
        return self._stands(cells, others) or self._stands(cells, set())

    def _stands(self, cells: Iterable[int], others: set[int]) -> dict[int, int]:
        # Best where something can still be put down next to as many other things as possible.
        best, stands = -1, dict[int, int]()
        for cell in cells:
            walkable = self._floor.open_after(cell, self._team.objects.keys())
            # No other robot in the room may be shut in.
            shut_in = any(ROOM_OF[other] == ROOM_OF[cell] and other not in walkable for other in others)
            if not walkable or cell in others or shut_in:
                continue
            occupied = self._team.objects.keys() | {cell}
            things = [thing for thing in INTERIOR[ROOM_OF[cell]] if thing in occupied]
            open_to = sum(self._floor.can_land(thing, occupied) for thing in things)
            if open_to > best:
                best, stands = open_to, {}
            if open_to == best:
                facing = self._facing(cell).items()
                stands |= {stand: heading for stand, heading in facing if stand in walkable}
        return stands


def _apart(room: int, other: int) -> int:
    (y, x), (v, u) = divmod(room - 1, SIDE), divmod(other - 1, SIDE)
    return abs(y - v) + abs(x - u)


def _is_looking(robot: Robot, now: int) -> bool:
    """Whether the room a robot has chosen can be left to it."""
    free = robot.call is None or robot.call.skill == "search"
    return free and now - robot.patrols_since < _TOO_LONG
