"""Looking ahead: who will come too close to whom if all fly on as they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brace.worlds.drones.airspace import Vector

TOO_CLOSE, CLEAR = 1.4, 1.8
"""Horizontal metres from which on paths count as crossing, and no longer do."""
HAZARD, HAZARD_HEIGHT = 1.0, 0.3
WARNING_S, CRITICAL_S = 2.5, 1.2
CLIMB_GAIN, CLIMB_LIMIT = 1.5, 1.5
"""A drone's vertical speed for each metre it is off its layer, and at most, in metres a second."""
_SAMPLE = 0.1

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Track:
    """How one drone may go on: straight to a place at a speed, then staying; meanwhile to an altitude."""

    drone: int
    position: Vector
    target: Vector
    speed: float
    altitude: float


def find_crossings(tracks: Sequence[Track], horizon: float, known: Sequence[Pair] = ()) -> dict[Pair, float]:
    """Pairs whose paths come too close within the horizon, whatever their layers, and in how many seconds.

    A drone may have several tracks. A pair that is `known` to cross does so until it is well clear.
    """
    found: dict[Pair, float] = {}
    times = np.arange(0.0, horizon, _SAMPLE)
    places = _horizontal(tracks, times)
    for one, other in _pairs(tracks):
        gaps = np.linalg.norm(places[one] - places[other], axis=-1)
        nearest = int(np.argmin(gaps))
        pair = _ordered(tracks[one].drone, tracks[other].drone)
        if gaps[nearest] < (CLEAR if pair in known else TOO_CLOSE):
            found[pair] = min(float(times[nearest]), found.get(pair, horizon))
    return found


def find_hazards(tracks: Sequence[Track]) -> dict[Pair, float]:
    """Pairs that will come too close in all three dimensions within the warning time, and when."""
    found: dict[Pair, float] = {}
    times = np.arange(0.0, WARNING_S, _SAMPLE)
    places, heights = _horizontal(tracks, times), _vertical(tracks, times)
    for one, other in _pairs(tracks):
        gaps = np.linalg.norm(places[one] - places[other], axis=-1)
        steps = np.abs(heights[one] - heights[other])
        distances = np.hypot(gaps, steps)
        # Two that part already are no hazard any more.
        close = (gaps < HAZARD) & (steps < HAZARD_HEIGHT) & (distances < distances[0] - 0.01)
        if close.any():
            found[_ordered(tracks[one].drone, tracks[other].drone)] = float(times[int(np.argmax(close))])
    return found


def _ordered(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)


def _pairs(tracks: Sequence[Track]) -> list[Pair]:
    return [
        (one, other)
        for one in range(len(tracks))
        for other in range(one + 1, len(tracks))
        if tracks[one].drone != tracks[other].drone
    ]


def _horizontal(tracks: Sequence[Track], times: Vector) -> NDArray[np.float64]:
    """Where each track is at each time: tracks × times × 2."""
    start = np.array([track.position[:2] for track in tracks])
    way = np.array([track.target[:2] for track in tracks]) - start
    length = np.linalg.norm(way, axis=1)
    speed = np.array([track.speed for track in tracks])
    flown = np.minimum(np.outer(speed, times), length[:, None])
    share = flown / np.maximum(length, 1e-9)[:, None]
    return np.asarray(start[:, None, :] + way[:, None, :] * share[:, :, None])


def _vertical(tracks: Sequence[Track], times: Vector) -> NDArray[np.float64]:
    """How high each track is at each time."""
    height = np.array([track.position[2] for track in tracks])
    wanted = np.array([track.altitude for track in tracks])
    heights = []
    for _ in times:
        heights.append(height)
        climb = np.clip(CLIMB_GAIN * (wanted - height), -CLIMB_LIMIT, CLIMB_LIMIT)
        height = height + climb * _SAMPLE
    return np.stack(heights, axis=1)
