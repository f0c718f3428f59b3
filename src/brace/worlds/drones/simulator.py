"""The drones themselves: PyFlyt's one-kilogram quadrotors in PyBullet, flown by velocity."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import numpy as np

from brace.worlds.drones.airspace import Vector

PHYSICS_STEPS = 12
"""Of PyFlyt's 1/120 s, in one step of the world."""
# PyFlyt's number for flying by vx, vy, yaw rate and vz.
VELOCITY_MODE = 6
MODEL = "primitive_drone"
"""About 0.7 m across: large enough for a wrong plan to end in a real contact."""
_AWAY = np.array([0.0, 0.0, 100.0])
"""Where the intruder is kept until it comes."""

Wind = Callable[[float, Vector], Vector]


@contextmanager
def quiet() -> Iterator[None]:
    """Swallow what PyFlyt and PyBullet's C code print about themselves when loaded and connected."""
    libc = ctypes.CDLL(None)
    # C's buffers may hold output of before, which is not to be swallowed.
    libc.fflush(None)
    kept = os.dup(1), os.dup(2)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        try:
            with redirect_stdout(nowhere), redirect_stderr(nowhere):
                yield
        finally:
            # What C still holds back would otherwise be printed later.
            libc.fflush(None)
            for number, copy in enumerate(kept, start=1):
                os.dup2(copy, number)
                os.close(copy)


class Swarm:
    """Our drones, and after them the intruder."""

    def __init__(self, pyflyt: Any, drones: int) -> None:
        self._pyflyt = pyflyt
        self._drones = drones
        self._aviary: Any = None
        self._intruding = False

    def reset(self, starts: Vector, seed: int) -> None:
        """Everyone hovers at its start; the intruder is away."""
        starts = np.vstack([starts, _AWAY])
        if self._aviary is None:
            with quiet():
                self._aviary = self._pyflyt.Aviary(
                    start_pos=starts,
                    start_orn=np.zeros_like(starts),
                    drone_type="quadx",
                    drone_options={"drone_model": MODEL},
                    seed=1,
                )
        self._aviary.start_pos = starts
        # PyFlyt would take a seed of 0 for none.
        self._aviary.np_random = np.random.default_rng([seed, 99])
        self._aviary.reset()
        self._aviary.set_mode(VELOCITY_MODE)
        self._ids = [drone.Id for drone in self._aviary.drones]
        self.dismiss_intruder()

    def blow(self, wind: Wind) -> None:
        """Let a wind field act from now on: velocities at a time and places."""
        self._aviary.register_wind_field_function(wind)

    def positions(self) -> Vector:
        """Where all are, the intruder last."""
        return np.array([self._aviary.state(index)[3] for index in range(self._drones + 1)])

    def command(self, index: int, velocity: Vector) -> None:
        """Fly with this velocity until told otherwise."""
        east, north, up = velocity
        self._aviary.set_setpoint(index, np.array([east, north, 0.0, up]))

    def launch_intruder(self, position: Vector) -> None:
        """Put the intruder into the air."""
        self._place_intruder(position)
        self._intruding = True
        self._aviary.set_armed([True] * (self._drones + 1))

    def dismiss_intruder(self) -> None:
        """Take the intruder away."""
        self._intruding = False
        self._place_intruder(_AWAY)
        self._aviary.set_armed([True] * self._drones + [False])

    def _place_intruder(self, position: Vector) -> None:
        drone = self._aviary.drones[-1]
        drone.start_pos = position
        drone.reset()
        drone.set_mode(VELOCITY_MODE)
        drone.update_state()

    def advance(self) -> set[tuple[int, int]]:
        """Let one world step pass. Returns who touched whom; the ground is number -1."""
        # PyFlyt does not fly who is not armed, so without this the intruder falls.
        if not self._intruding:
            self._place_intruder(_AWAY)
        touched = np.zeros_like(self._aviary.contact_array)
        for _ in range(PHYSICS_STEPS):
            self._aviary.step()
            # Each of PyFlyt's steps forgets the contacts of the one before.
            touched |= self._aviary.contact_array
        index = {body: number for number, body in enumerate(self._ids)} | {self._aviary.planeId: -1}
        pairs = {(index[int(one)], index[int(other)]) for one, other in np.argwhere(touched)}
        return {(one, other) for one, other in pairs if one < other}

    def close(self) -> None:
        """Give the physics server back."""
        if self._aviary is not None:
            self._aviary.disconnect()
            self._aviary = None
