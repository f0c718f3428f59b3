"""What others do to the things on the table: bumps and slips, drawn before an episode begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Trouble:
    """How rough the surroundings are."""

    gap: tuple[float, float]
    """Seconds between two bumps: at least, and on average in addition."""
    shift: tuple[float, float]
    """How far a bump moves a thing, in metres: from, to."""
    turn: tuple[float, float]
    """How far it turns it, in degrees: from, to."""
    slips: tuple[float, ...]
    """How likely no grip slips, one, two …"""


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
