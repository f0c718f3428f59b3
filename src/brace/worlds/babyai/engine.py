"""MiniGrid as the engine: walls, doors, objects, what an action does and what a robot sees.

The only module here that needs the simulator.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from minigrid.core.constants import DIR_TO_VEC
from minigrid.core.grid import Grid
from minigrid.core.mission import MissionSpace
from minigrid.core.roomgrid import RoomGrid
from minigrid.core.world_object import Ball, Box, Key, WorldObj
from minigrid.core.world_object import Door as GridDoor
from minigrid.utils.rendering import fill_coords, point_in_triangle, rotate_fn
from numpy.typing import NDArray

from brace.worlds.babyai.layout import ADJACENT, INTERIOR, ROOM_SIZE, SIDE, WIDTH, Door, FloorPlan
from brace.worlds.babyai.team import TOGGLE, Robot

_KINDS: dict[str, type[Ball] | type[Box] | type[Key]] = {"ball": Ball, "box": Box, "key": Key}
_TILE = 30
_ROBOT_COLOURS = (
    (255, 80, 80), (80, 200, 255), (255, 200, 60), (120, 255, 120),
    (255, 120, 255), (200, 200, 200), (255, 150, 60), (140, 140, 255),
)  # fmt: skip
_FONT = {
    0: "111101101101111", 1: "010110010010111", 2: "111001111100111", 3: "111001111001111",
    4: "101101111001001", 5: "111100111001111", 6: "111100111101111", 7: "111001001001001",
}  # fmt: skip
"""The robots' numbers in 3 × 5 dots, row by row."""


def name_of(thing: WorldObj) -> str:
    """`red ball`."""
    return f"{thing.color} {thing.type}"


class Building(RoomGrid):
    """BabyAI's rooms for any number of robots: each one's state is swapped in when it acts or looks."""

    def __init__(self) -> None:
        super().__init__(
            # The world counts steps and tells the mission itself; MiniGrid wants both all the same.
            room_size=ROOM_SIZE, num_rows=SIDE, num_cols=SIDE, max_steps=2**31,
            mission_space=MissionSpace(mission_func=lambda: "put things next to each other"),
            render_mode="rgb_array", tile_size=_TILE,
        )  # fmt: skip
        self._offsets = [self._view_offsets(heading) for heading in range(4)]
        self._views: dict[tuple[int, int], list[int]] = {}
        """What was seen from a cell with a heading. Only walls and doors hide anything, so it holds until a
        door moves."""

    def gen_obs(self) -> dict[str, object]:
        """Nothing: `view` tells what is needed, and encoding it for a network would be half the work."""
        return {}

    def door_cell(self, rooms: tuple[int, int]) -> int:
        """Where the door between two rooms is, or would be."""
        room, heading = self._wall(rooms)
        place = self.room_grid[(room - 1) // SIDE][(room - 1) % SIDE].door_pos[heading]
        if place is None:
            raise ValueError(f"rooms {rooms} share no wall")
        return int(place[1]) * WIDTH + int(place[0])

    def hang(self, door: Door, *, locked: bool) -> None:
        """Put a door into its wall."""
        room, heading = self._wall(door.rooms)
        self._views.clear()
        self.add_door((room - 1) % SIDE, (room - 1) // SIDE, heading, door.colour, locked)

    def put(self, name: str, cell: int) -> None:
        """Lay a new object there."""
        colour, kind = name.split()
        self.put_obj(_KINDS[kind](colour), cell % WIDTH, cell // WIDTH)

    def move(self, source: int, target: int) -> None:
        """Carry an object from one cell to another."""
        cells = self.grid.grid
        cells[target], cells[source] = cells[source], None

    def content(self, cell: int) -> tuple[str, str]:
        """What is in a cell, in words: its kind, and its name or, for a door, its state."""
        thing = self.grid.grid[cell]
        if thing is None:
            return "", ""
        if isinstance(thing, GridDoor):
            return "door", "locked" if thing.is_locked else "open" if thing.is_open else "closed"
        return thing.type, name_of(thing)

    def lock(self, cell: int) -> None:
        """Shut and lock a door."""
        door = self.door(cell)
        door.is_open, door.is_locked = False, True
        self._views.clear()

    def door(self, cell: int) -> GridDoor:
        """The door in a cell."""
        door = self.grid.grid[cell]
        if not isinstance(door, GridDoor):
            raise TypeError(f"cell {cell} has no door")
        return door

    def locked(self, floor: FloorPlan) -> set[int]:
        """The doors that are locked now."""
        return {cell for cell in floor.doors if self.door(cell).is_locked}

    def objects(self) -> dict[str, int]:
        """Every object that lies on the floor, and its cell."""
        cells = self.grid.grid
        return {
            name_of(thing): cell
            for inside in INTERIOR.values()
            for cell in inside
            if (thing := cells[cell]) is not None
        }

    def act(self, robot: Robot, action: int) -> None:
        """One action of one robot, by MiniGrid's rules."""
        self._swap_in(robot)
        self.step(action)
        if action == TOGGLE:
            self._views.clear()
        robot.cell = int(self.agent_pos[1]) * WIDTH + int(self.agent_pos[0])
        robot.heading = int(self.agent_dir)
        robot.carrying = self.carrying

    def view(self, robot: Robot) -> list[int]:
        """The cells a robot sees."""
        place = robot.cell, robot.heading
        if place not in self._views:
            self._views[place] = self._look(robot)
        return self._views[place]

    def picture(self, robots: Sequence[Robot]) -> NDArray[np.uint8]:
        """The whole building from above with every robot, its number, and what it carries in its corner."""
        # MiniGrid draws one robot and wants its place: nowhere, because ours are drawn below.
        image: NDArray[np.uint8] = self.grid.render(_TILE, (-1, -1))
        for robot in robots:
            y, x = divmod(robot.cell, WIDTH)
            tile = image[y * _TILE : (y + 1) * _TILE, x * _TILE : (x + 1) * _TILE]
            triangle = point_in_triangle((0.12, 0.19), (0.87, 0.50), (0.12, 0.81))  # type: ignore[no-untyped-call]
            turned = rotate_fn(triangle, 0.5, 0.5, 0.5 * np.pi * robot.heading)  # type: ignore[no-untyped-call]
            fill_coords(tile, turned, _ROBOT_COLOURS[robot.index])  # type: ignore[no-untyped-call]
            if robot.carrying is not None:
                tile[-12:, -12:] = Grid.render_tile(robot.carrying, tile_size=12)
            for place, dot in enumerate(_FONT[robot.index]):
                row, column = divmod(place, 3)
                tile[2 + 2 * row : 4 + 2 * row, 2 + 2 * column : 4 + 2 * column] = 255 if dot == "1" else 0
        return image

    def _look(self, robot: Robot) -> list[int]:
        """MiniGrid's own view, as cells of the building."""
        self._swap_in(robot)
        _, mask = self.gen_obs_grid()  # type: ignore[no-untyped-call]
        y, x = divmod(robot.cell, WIDTH)
        return [
            (y + dy) * WIDTH + x + dx
            for seen, (dx, dy) in zip(mask.ravel().tolist(), self._offsets[robot.heading], strict=True)
            # The view is a square that may reach beyond the building.
            if seen and 0 <= x + dx < WIDTH and 0 <= y + dy < WIDTH
        ]

    def _swap_in(self, robot: Robot) -> None:
        self.agent_pos = (robot.cell % WIDTH, robot.cell // WIDTH)
        self.agent_dir = robot.heading
        self.carrying = robot.carrying

    def _view_offsets(self, heading: int) -> list[tuple[int, int]]:
        """For each cell of the view, in the order of its mask: how far from the robot it lies."""
        (fx, fy), size = DIR_TO_VEC[heading].tolist(), self.agent_view_size
        rx, ry = -fy, fx
        return [
            (fx * (size - 1 - j) + rx * (i - size // 2), fy * (size - 1 - j) + ry * (i - size // 2))
            for i in range(size)
            for j in range(size)
        ]

    @staticmethod
    def _wall(rooms: tuple[int, int]) -> tuple[int, int]:
        if rooms not in ADJACENT:
            raise ValueError(f"rooms {rooms} share no wall")
        return rooms[0], 0 if rooms[1] == rooms[0] + 1 else 1
