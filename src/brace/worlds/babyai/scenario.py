"""One episode's building, objects and jobs, drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from brace.worlds.babyai.layout import (
    ADJACENT,
    COLOURS,
    INTERIOR,
    MAX_CARRIERS,
    MOVES,
    OBJECTS,
    ROOM_OF,
    ROOMS,
    Door,
    FloorPlan,
)

KEYED = 2
"""So many colours have a key lying about; only their doors can be locked."""
BYSTANDERS = 1
"""Objects that belong to no job."""
ROOM_LIMIT = 2
"""People leave no more objects than this in a room."""
CROSSING_LIMIT = 1
"""… nor more than this where doors lead to all sides."""
MOST_REMOVED = 2
"""Doors that a building may lack, though its rooms share a wall."""
LOCKED_CHANCE = {"easy": (), "normal": (0.5,), "hard": (1.0, 1.0)}
"""For each room that may be locked at the beginning: how likely it is."""
JOBS = {"easy": 1, "normal": 2, "hard": 2}


@dataclass(frozen=True, slots=True)
class Job:
    """Put the one thing next to the other."""

    thing: str
    beside: str


@dataclass(frozen=True)
class Scenario:
    """What `reset` builds."""

    floor: FloorPlan
    locked: frozenset[int]
    objects: dict[str, int]
    keys: frozenset[str]
    """Keys that belong to no job: their doors can be locked."""
    jobs: dict[int, tuple[Job, ...]]
    """Of each carrier, in order."""
    starts: tuple[tuple[int, int], ...]
    """Of each robot: its cell and its heading."""

    @property
    def things(self) -> list[str]:
        """All objects that belong to a job."""
        return [name for jobs in self.jobs.values() for job in jobs for name in (job.thing, job.beside)]

    def role(self, name: str) -> tuple[str, int, int]:
        """Of an object that belongs to a job: the other one, whose job it is, and its number from 0."""
        for agent, jobs in self.jobs.items():
            for number, job in enumerate(jobs):
                if name in (job.thing, job.beside):
                    return job.beside if name == job.thing else job.thing, agent, number
        raise KeyError(name)

    def fewest_actions(self) -> float:
        """A lower bound for all jobs: each carrier alone, who knows where everything is, every door open."""
        total = 0
        for agent, jobs in self.jobs.items():
            lying, here = dict(self.objects), self.starts[agent]
            for job in jobs:
                for name, beside in ((job.thing, False), (job.beside, True)):
                    occupied = set(lying.values())
                    spots = self.floor.neighbours[lying[name]] if beside else (lying[name],)
                    targets = {spot for spot in spots if not beside or spot not in occupied}
                    actions, here, spot = _approach(self.floor, occupied, here, targets)
                    total += actions + 1
                    if beside:
                        lying[job.thing] = spot
                    else:
                        del lying[name]
        return float(total)


def make_scenario(
    rng: np.random.Generator, door_cell: Callable[[tuple[int, int]], int], agents: int, difficulty: str
) -> Scenario:
    """Draw a building in which every job can be done."""
    locked_rooms = _draw_locked_rooms(rng, sum(rng.random() < p for p in LOCKED_CHANCE[difficulty]))
    colours = [COLOURS[index] for index in rng.permutation(len(COLOURS))]
    pairs = _draw_doors(rng, locked_rooms)
    doors = {}
    for pair in pairs:
        shut = [room for room in pair if room in locked_rooms]
        # The first colours are those that have keys, at least one for each locked room.
        colour = colours[locked_rooms.index(shut[0])] if shut else COLOURS[rng.integers(len(COLOURS))]
        cell = door_cell(pair)
        doors[cell] = Door(cell, pair, colour)
    floor = FloorPlan(doors)
    locked = frozenset(cell for cell, door in doors.items() if set(door.rooms) & set(locked_rooms))

    keys = [f"{colour} key" for colour in colours[:KEYED]]
    pool = [name for name in OBJECTS if name not in keys]
    names = [pool[index] for index in rng.permutation(len(pool))]
    carriers, each = min(agents, MAX_CARRIERS), JOBS[difficulty]
    jobs = {
        carrier: tuple(
            Job(names[2 * number], names[2 * number + 1])
            for number in range(carrier * each, (carrier + 1) * each)
        )
        for carrier in range(carriers)
    }
    used = 2 * carriers * each
    open_rooms = [room for room in ROOMS if room not in locked_rooms]
    objects: dict[str, int] = {}
    # A locked room matters: one object of the first jobs is in it.
    for room, first in zip(locked_rooms, rng.permutation(used // 2), strict=False):
        place_object(rng, floor, objects, names[2 * first + rng.integers(2)], (room,))
    more = 0
    for name in [*keys, *names[: used + BYSTANDERS]]:
        if name not in objects:
            partner = {job.beside: job.thing for line in jobs.values() for job in line}.get(name)
            taken = {ROOM_OF[objects[partner]]} if partner in objects else set()
            rooms = [room for room in open_rooms if room not in taken]
            # Few buildings are so full of doors that it takes more than the usual number in a room.
            while not place_object(rng, floor, objects, name, rooms, more):
                more += 1
    starts = _draw_starts(rng, floor, objects, open_rooms, agents)
    return Scenario(floor, locked, objects, frozenset(keys), jobs, starts)


def place_object(
    rng: np.random.Generator,
    floor: FloorPlan,
    objects: dict[str, int],
    name: str,
    rooms: Iterable[int],
    more: int = 0,
) -> bool:
    """Find a free cell for an object in one of the rooms; False when there is none.

    A room takes `more` than the usual number. It is not beside another object, and something can still
    be put down next to it and to every other.
    """
    occupied = set(objects.values())
    for room in rng.permutation(list(rooms)).tolist():
        inside = INTERIOR[room]
        order = rng.permutation(len(inside))
        limit = more + (CROSSING_LIMIT if floor.is_crossing(room) else ROOM_LIMIT)
        if sum(cell in occupied for cell in inside) >= limit:
            continue
        for cell in (inside[index] for index in order):
            if not floor.open_after(cell, occupied) or occupied & set(floor.neighbours[cell]):
                continue
            then = occupied | {cell}
            if all(floor.can_land(thing, then) for thing in inside if thing in then):
                objects[name] = cell
                return True
    return False


def _draw_locked_rooms(rng: np.random.Generator, count: int) -> list[int]:
    """Rooms at the outer wall, no two beside each other, without which the rest still hangs together."""
    while True:
        rooms = sorted(rng.choice([room for room in ROOMS if room != 5], count, replace=False).tolist())
        rest = set(ROOMS) - set(rooms)
        inner = [pair for pair in ADJACENT if set(pair) <= rest]
        if len(_joined(5, inner)) == len(rest) and not any(set(pair) <= set(rooms) for pair in ADJACENT):
            return rooms


def _draw_doors(rng: np.random.Generator, locked_rooms: list[int]) -> list[tuple[int, int]]:
    """One door for a locked room; between the others nearly all there can be, for ways round."""
    inner = [pair for pair in ADJACENT if not set(pair) & set(locked_rooms)]
    whole = len(_joined(5, inner))
    candidates = [inner[index] for index in rng.permutation(len(inner))]
    for candidate in candidates[: rng.integers(MOST_REMOVED + 1)]:
        fewer = [pair for pair in inner if pair != candidate]
        if len(_joined(5, fewer)) == whole:
            inner = fewer
    own = []
    for room in locked_rooms:
        walls = [pair for pair in ADJACENT if room in pair]
        own.append(walls[rng.integers(len(walls))])
    return sorted([*inner, *own])


def _joined(room: int, pairs: list[tuple[int, int]]) -> set[int]:
    seen, todo = {room}, [room]
    while todo:
        here = todo.pop()
        for pair in pairs:
            if here in pair and (other := sum(pair) - here) not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def _draw_starts(
    rng: np.random.Generator, floor: FloorPlan, objects: dict[str, int], rooms: list[int], agents: int
) -> tuple[tuple[int, int], ...]:
    order = rng.permutation(rooms).tolist()
    taken = set(objects.values())
    starts = []
    for agent in range(agents):
        walkable = floor.walkable(order[agent % len(order)], objects.values())
        # Sorted, so that the draw does not depend on how the set came about.
        free = sorted(walkable - taken - floor.fronts) or sorted(walkable - taken)
        cell = free[rng.integers(len(free))]
        taken.add(cell)
        starts.append((cell, int(rng.integers(4))))
    return tuple(starts)


def _approach(
    floor: FloorPlan, occupied: set[int], start: tuple[int, int], targets: set[int]
) -> tuple[int, tuple[int, int], int]:
    """Turns and steps until one of the targets is right ahead; where one stands then, and which it is."""
    seen, layer, actions = {start}, [start], 0
    while layer:
        following = []
        for cell, heading in layer:
            ahead = cell + MOVES[heading]
            if ahead in targets:
                return actions, (cell, heading), ahead
            states = [(cell, (heading + 1) % 4), (cell, (heading - 1) % 4)]
            if ahead in floor.neighbours[cell] and ahead not in occupied:
                states.append((ahead, heading))
            following += [state for state in states if state not in seen]
            seen.update(states)
        layer, actions = following, actions + 1
    return 0, start, min(targets, default=start[0])
