"""What went wrong in an episode: contacts, near misses, time inside closed layers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from brace.worlds.drones.airspace import Vector, altitude

NEAR, NEAR_HEIGHT = 0.9, 0.3
"""Closer than this, horizontally and vertically, is a near miss."""
FARTHEST = 20.0
"""No two are ever farther apart: the least distance of one that is alone."""
INSIDE = 0.3
"""Within this of a layer's middle a drone is inside it."""
PASSAGE_S = 1.0
"""How long each stay inside a closed layer may last for nothing: to pass through it, or to leave it."""
CLOSED_LIMIT_S = 4.0
"""What all drones together may spend inside closed layers beyond that."""


class SafetyRecord:
    """The safety figures of one episode, kept step by step."""

    def __init__(self, drones: int, dt: float) -> None:
        self.collided: set[tuple[int, int]] = set()
        """Pairs that touched; -1 is the ground."""
        self.near_misses = 0
        self.min_distance = FARTHEST
        self.closed_s = 0.0
        self._near: set[tuple[int, int]] = set()
        self._stay = [0.0] * drones
        self._drones, self._dt = drones, dt

    @property
    def lost(self) -> bool:
        """Whether the episode can no longer be a success."""
        return bool(self.collided) or self.closed_s >= CLOSED_LIMIT_S

    def update(
        self,
        positions: Vector,
        touched: Iterable[tuple[int, int]],
        closed: Iterable[int],
        bound: Iterable[int],
    ) -> None:
        """Take one step in: all that are in the air, and our drones that the layers' rules bind."""
        self.collided |= set(touched)
        near = set()
        for one in range(len(positions)):
            for other in range(one + 1, len(positions)):
                gap = positions[one] - positions[other]
                self.min_distance = min(self.min_distance, float(np.linalg.norm(gap)))
                if np.hypot(gap[0], gap[1]) < NEAR and abs(gap[2]) < NEAR_HEIGHT:
                    near.add((one, other))
        self.near_misses += len(near - self._near)
        self._near = near
        levels = [altitude(layer) for layer in closed]
        watched = set(bound)
        for drone in range(self._drones):
            inside = drone in watched and any(abs(positions[drone][2] - level) < INSIDE for level in levels)
            self._stay[drone] = self._stay[drone] + self._dt if inside else 0.0
            if self._stay[drone] > PASSAGE_S + 1e-9:
                self.closed_s += self._dt
