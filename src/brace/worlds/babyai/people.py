"""People about the house: they move things and lock doors. And cameras that take one thing for another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from brace.worlds.babyai.disturbances import Disturbances
from brace.worlds.babyai.layout import ROOM_OF
from brace.worlds.babyai.robots import Robot
from brace.worlds.babyai.scenario import Scenario, place_object

if TYPE_CHECKING:
    from brace.worlds.babyai.engine import Building

_PLACES, _NAMES = 5, 6
"""The streams of draws for where a thing is taken, and for what a faulty camera sees."""


class People:
    """Do what the schedule says, where they can. They keep away from robots, so nobody sees it happen."""

    def __init__(
        self, scene: Scenario, schedule: Disturbances, building: Building, robots: Sequence[Robot]
    ) -> None:
        self._scene, self._schedule = scene, schedule
        self._building, self._robots = building, robots

    def act(self, now: int, done: Mapping[int, int]) -> None:
        """What they do in this step, given each agent's number of jobs done."""
        name, doors = self._schedule.moves.get(now), self._schedule.locks.get(now)
        if name is not None:
            self._move(name, now, done)
        if doors is not None:
            self._lock([list(self._scene.floor.doors)[door] for door in doors])

    def sees(self, agent: int, now: int, names: tuple[str, ...]) -> tuple[str, ...]:
        """What a robot's camera makes of a room's contents."""
        if not self._schedule.is_faulty(agent, now):
            return names
        rng = self._schedule.stream(_NAMES, agent, now)
        known = sorted(self._scene.objects)
        return tuple(sorted(known[index] for index in rng.permutation(len(known))[: rng.integers(1, 4)]))

    def _move(self, name: str, now: int, done: Mapping[int, int]) -> None:
        """Take a thing to another room, unless its job is done or a robot is near."""
        partner, agent, number = self._scene.role(name)
        objects = self._building.objects()
        if done[agent] > number or name not in objects:
            return
        floor = self._scene.floor
        reachable = floor.reach((self._robots[0].room,), self._building.locked(floor))
        watched = {robot.room for robot in self._robots} | {ROOM_OF[robot.cell] for robot in self._robots}
        home = ROOM_OF[objects[name]]
        if home in watched or home not in reachable:
            return
        near_partner = ROOM_OF[objects[partner]] if partner in objects else home
        rooms = sorted(reachable - watched - {home, near_partner})
        source = objects.pop(name)
        if place_object(self._schedule.stream(_PLACES, now), floor, objects, name, rooms):
            self._building.move(source, objects[name])

    def _lock(self, doors: Sequence[int]) -> None:
        """Lock the first of these doors that may be."""
        locked, objects = self._building.locked(self._scene.floor), self._building.objects()
        for cell in doors:
            if self._may_lock(cell, locked, objects):
                self._building.lock(cell)
                return

    def _may_lock(self, cell: int, locked: set[int], objects: Mapping[str, int]) -> bool:
        """Whether all robots stay together, and every key needed is with them."""
        floor = self._scene.floor
        if cell in locked or floor.doors[cell].key not in self._scene.keys:
            return False
        if any(robot.cell in floor.doors for robot in self._robots):
            return False
        shut = locked | {cell}
        together = floor.reach((self._robots[0].room,), shut)
        keys = {floor.doors[door].key for door in shut}
        return all(robot.room in together for robot in self._robots) and all(
            key in objects and ROOM_OF[objects[key]] in together for key in keys
        )
