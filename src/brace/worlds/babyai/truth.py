"""The plan of one who sees where everything is and which doors are locked: the ceiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from brace.plan import Plan
from brace.worlds.babyai.layout import ROOM_OF, FloorPlan
from brace.worlds.babyai.planning import Facts, Lock, write_plan
from brace.worlds.babyai.robots import Robot
from brace.worlds.babyai.scenario import Job

if TYPE_CHECKING:
    from brace.worlds.babyai.engine import Building


def truth_plan(
    building: Building, floor: FloorPlan, robots: Sequence[Robot], jobs: Mapping[int, Sequence[Job]]
) -> Plan:
    """What is best for the jobs left, as the building is now."""
    locked = building.locked(floor)
    facts = Facts(
        jobs,
        {name: ROOM_OF[cell] for name, cell in building.objects().items()},
        {robot.index: robot.holds for robot in robots if robot.holds},
        {robot.index: robot.room for robot in robots},
    )

    def blocking(agent: int, room: int | None) -> Lock | None:
        here = robots[agent].room
        if room is None or room in floor.reach((here,), locked):
            return None
        door = floor.first_locked(here, room, locked)
        return None if door is None else Lock(door.colour, door.rooms)

    return write_plan(facts, blocking)
