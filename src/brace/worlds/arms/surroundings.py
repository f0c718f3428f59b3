"""What happens around the arms, drawn before an episode begins, and what the camera tells of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from brace.worlds.arms.geometry import Vector

Sighting = tuple[int, int, int, int]
"""A place in millimetres and an angle in degrees."""

REPORT_STEPS = 10
"""Everything is reported at least this often."""
_SOONEST_STEPS = 3
"""A moving thing is not reported more often than this."""
_MOVED_MM, _TURNED_DEGREES = 6, 5
"""A thing that moved less has not moved, as far as the camera can tell."""


@dataclass(frozen=True)
class Trouble:
    """How rough the surroundings are."""

    gap: tuple[float, float]
    """Seconds between two bumps: at least, and on average in addition."""
    shift: tuple[float, float]
    """How far a bump moves a thing, in metres: from, to."""
    turn: tuple[float, float]
    """How far it turns it, in degrees: from, to."""
    slips: tuple[float, ...] = (1.0,)
    """How likely no grip slips, one, two …"""


@dataclass(frozen=True, slots=True)
class Announcement:
    """Something the operator says once, and what it changes."""

    step: int
    text: str
    effect: Callable[[], None]


class Bump(NamedTuple):
    """One bump: at which step, and by how much in x, y (metres) and yaw (degrees)."""

    step: int
    x: float
    y: float
    turn: float


def draw_bumps(trouble: Trouble | None, draw: np.random.Generator, steps: int, dt: float) -> list[Bump]:
    """All bumps of an episode, in order; whether a thing stands free then is another matter."""
    bumps: list[Bump] = []
    when = 0.0
    while trouble is not None and when < steps:
        when += (trouble.gap[0] + draw.exponential(trouble.gap[1])) / dt
        shift, way = draw.uniform(*trouble.shift), draw.uniform(0.0, 2 * np.pi)
        turn = draw.uniform(*trouble.turn) * draw.choice((-1, 1))
        bumps.append(Bump(int(when), shift * np.cos(way), shift * np.sin(way), float(turn)))
    return bumps


def draw_slips(trouble: Trouble | None, draw: np.random.Generator, low: float, high: float) -> list[float]:
    """How high above the table (metres) grips slip, for the first, second … time something is lifted."""
    if trouble is None:
        return []
    count = int(draw.choice(len(trouble.slips), p=trouble.slips))
    return [float(height) for height in draw.uniform(low, high, count)]


def kept_within(now: float, way: float, limit: float) -> float:
    """A shift that does not lead out of ±limit: turned round, and shortened if need be."""
    if abs(now + way) > limit:
        way = -way
    return float(np.clip(now + way, -limit, limit)) - now


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
            # What is seen for the first time is said at once, but has not moved.
            when, old = self._last.get(name, (-REPORT_STEPS, true))
            turn = abs(true[3] - old[3]) % self._period
            moved = (
                max(abs(a - b) for a, b in zip(true[:3], old[:3], strict=True)) > _MOVED_MM
                or min(turn, self._period - turn) > _TURNED_DEGREES
            )
            if now - when >= REPORT_STEPS or (moved and now - when >= _SOONEST_STEPS):
                x, y, z = (int(value) for value in np.array(true[:3]) + self._noise.integers(-1, 2, 3))
                # What was said is remembered, with its error: a planner knows nothing better.
                self._last[name] = (now, (x, y, z, true[3]))
                yield name, f"{name} at {x} {y} {z} {self._angle} {true[3]}", moved


def in_millimetres(place: Vector) -> tuple[int, int, int]:
    """A place as it is reported."""
    x, y, z = (round(float(value) * 1e3) for value in place)
    return x, y, z
