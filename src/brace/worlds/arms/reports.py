"""What the camera and the arms report, and how often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from brace.worlds.arms.geometry import Vector

Sighting = tuple[int, int, int, int]
"""A place in millimetres and an angle in degrees."""

REPORT_STEPS = 10
"""Everything is reported at least this often."""
SOONEST_STEPS = 3
"""A moving thing is not reported more often than this."""
MOVED_MM, TURNED_DEGREES = 6, 5
"""A thing that moved less has not moved, as far as the camera can tell."""


class Camera:
    """Reports things regularly and when they have moved, to a millimetre or so."""

    def __init__(self, noise: np.random.Generator, angle: str, period: int) -> None:
        self._noise = noise
        self._angle = angle
        self._period = period
        self._last: dict[str, tuple[int, Sighting]] = {}

    def look(self, now: int, things: Mapping[str, Sighting]) -> Iterator[tuple[str, str, bool]]:
        """What is to be said at this step: the thing's name, the line, and whether it is seen elsewhere."""
        for name, true in things.items():
            when, old = self._last.get(name, (-REPORT_STEPS, true))
            moved = self._differ(true, old)
            if now - when >= REPORT_STEPS or (moved and now - when >= SOONEST_STEPS):
                x, y, z = (int(value) for value in np.array(true[:3]) + self._noise.integers(-1, 2, 3))
                self._last[name] = (now, (x, y, z, true[3]))
                yield name, f"{name} at {x} {y} {z} {self._angle} {true[3]}", moved

    def _differ(self, one: Sighting, other: Sighting) -> bool:
        moved = max(abs(a - b) for a, b in zip(one[:3], other[:3], strict=True)) > MOVED_MM
        turn = abs(one[3] - other[3]) % self._period
        return moved or min(turn, self._period - turn) > TURNED_DEGREES


def in_millimetres(place: Vector) -> tuple[int, int, int]:
    """A place as it is reported."""
    x, y, z = (round(float(value) * 1e3) for value in place)
    return x, y, z
