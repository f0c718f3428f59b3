"""What goes wrong, and how often: drawn from the seed alone, so that every plan meets the same.

People move things and lock doors; cameras take one thing for another; actions slip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from brace.worlds.babyai.layout import ROOM_OF
from brace.worlds.babyai.scenario import Scenario, place_object
from brace.worlds.babyai.team import LEFT, RIGHT, Robot

if TYPE_CHECKING:
    from brace.worlds.babyai.engine import Building


@dataclass(frozen=True, slots=True)
class Rates:
    """How much goes wrong."""

    move: float = 0.0
    """The chance that people move an object in a step."""
    locks: int = 0
    """Doors that people try to lock in an episode."""
    slip: float = 0.0
    """The chance that an action becomes a turn."""
    faults: tuple[float, ...] = ()
    """For each camera that may fail: how likely it does."""


RATES: dict[str, Rates] = {
    "none": Rates(),
    "normal": Rates(move=0.1, locks=1, slip=0.05, faults=(0.6,)),
    "strong": Rates(move=0.15, locks=2, slip=0.1, faults=(1.0, 0.6)),
}
_FAULT_STARTS = (5, 40)
_NOTICE_AFTER = (4, 20)
_REPAIR_AFTER = (40, 90)
_REPAIR_CHANCE = 0.5
# Each kind of event has a stream of draws of its own, so that none depends on what else was drawn.
_MOVES, _LOCKS, _FAULTS, _SLIPS, _PLACES, _NAMES = range(1, 7)


@dataclass(frozen=True, slots=True)
class Fault:
    """One camera's bad time: from the first false report to its repair, and when people are told."""

    agent: int
    start: int
    notice: int
    repair: int | None


class Disturbances:
    """All that goes wrong in one episode.

    People do what was drawn for them where they can. They keep away from robots, so nobody sees it happen.
    """

    def __init__(
        self,
        seed: int,
        rates: Rates,
        steps: int,
        scene: Scenario,
        building: Building,
        robots: Sequence[Robot],
    ) -> None:
        self._seed, self._rates = seed, rates
        self._scene, self._building, self._robots = scene, building, robots
        moves, things = self._stream(_MOVES), scene.things
        self._moves = {
            step: things[moves.integers(len(things))]
            for step in range(1, steps)
            if moves.random() < rates.move
        }
        """At which step people move which object."""
        locks, doors = self._stream(_LOCKS), list(scene.floor.doors)
        self._locks = {
            int(locks.integers(10, steps // 2)): [doors[door] for door in locks.permutation(len(doors))]
            for _ in range(rates.locks)
        }
        """At which step people lock the first of these doors that can be."""
        self.faults = self._draw_faults(range(len(scene.jobs), len(robots)))
        self._slips = self._stream(_SLIPS)

    def _stream(self, purpose: int, *numbers: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, purpose, *numbers])

    def _draw_faults(self, scouts: Sequence[int]) -> list[Fault]:
        faults, rng = [], self._stream(_FAULTS)
        for agent, chance in zip(rng.permutation(scouts).tolist(), self._rates.faults, strict=False):
            happens = rng.random() < chance
            # Also drawn for a camera that stays good, so that its chance changes no later draw.
            start = int(rng.integers(*_FAULT_STARTS))
            notice = start + int(rng.integers(*_NOTICE_AFTER))
            repair = notice + int(rng.integers(*_REPAIR_AFTER)) if rng.random() < _REPAIR_CHANCE else None
            if happens:
                faults.append(Fault(agent, start, notice, repair))
        return faults

    def slips(self) -> list[int | None]:
        """For each robot the turn its next action becomes, or None. Drawn in every step, moving or not."""
        count = len(self._robots)
        chances, sides = self._slips.random(count), self._slips.integers(2, size=count)
        return [
            (LEFT, RIGHT)[side] if chance < self._rates.slip else None
            for chance, side in zip(chances, sides, strict=True)
        ]

    def is_faulty(self, agent: int, now: int) -> bool:
        """Whether this robot's camera sees wrong things now."""
        return any(
            fault.agent == agent and fault.start <= now and (fault.repair is None or now < fault.repair)
            for fault in self.faults
        )

    def sees(self, agent: int, now: int, names: tuple[str, ...]) -> tuple[str, ...]:
        """What a robot's camera makes of a room's contents."""
        if not self.is_faulty(agent, now):
            return names
        # By agent and step: what is seen must not depend on who has looked before.
        rng = self._stream(_NAMES, agent, now)
        known = sorted(self._scene.objects)
        return tuple(sorted(known[index] for index in rng.permutation(len(known))[: rng.integers(1, 4)]))

    def act(self, now: int, done: Mapping[int, int]) -> None:
        """What people do in this step, given each agent's number of jobs done."""
        if now in self._moves:
            self._move(self._moves[now], now, done)
        for cell in self._locks.get(now, ()):
            if self._may_lock(cell):
                self._building.lock(cell)
                break

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
        # Never into the room of the thing it belongs next to: that would make the job easier.
        near_partner = ROOM_OF[objects[partner]] if partner in objects else home
        rooms = sorted(reachable - watched - {home, near_partner})
        source = objects.pop(name)
        # By step: how many draws this takes depends on where things lie.
        if place_object(self._stream(_PLACES, now), floor, objects, name, rooms):
            self._building.move(source, objects[name])

    def _may_lock(self, cell: int) -> bool:
        """Whether all robots stay together, and every key needed is with them."""
        floor = self._scene.floor
        locked, objects = self._building.locked(floor), self._building.objects()
        if cell in locked or floor.doors[cell].key not in self._scene.keys:
            return False
        # A robot in a door keeps it open, and counts as being in the room it comes from.
        if any(robot.cell in floor.doors for robot in self._robots):
            return False
        shut = locked | {cell}
        together = floor.reach((self._robots[0].room,), shut)
        keys = {floor.doors[door].key for door in shut}
        return all(robot.room in together for robot in self._robots) and all(
            key in objects and ROOM_OF[objects[key]] in together for key in keys
        )
