"""The monitor: who will come too close to whom if all fly on as they do, and what it has said of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from brace.worlds.drones.airspace import INTRUDER, Vector, drone_name
from brace.worlds.drones.flight import CLIMB_GAIN, CLIMB_LIMIT, Flight, Track

# Two bounds, because at a single one a pair would cross and be clear by turns.
TOO_CLOSE, CLEAR = 1.4, 1.8
"""Horizontal metres from which on paths count as crossing, and no longer do."""
HAZARD, HAZARD_HEIGHT = 1.0, 0.3
WARNING_S, CRITICAL_S = 2.5, 1.2
_SAMPLE = 0.1
_NEW_ESTIMATE_S = 1.5
"""A crossing is reported again when it comes so much sooner or later than was said."""

Pair = tuple[int, int]


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


class Monitor:
    """Looks at the flight after every step and says what has changed."""

    def __init__(self, agents: int, horizon: float) -> None:
        self.crossings: dict[Pair, float] = {}
        """Pairs that cross as last reported, and in how many seconds."""
        self._agents, self._horizon = agents, horizon
        self._said: dict[Pair, float] = {}
        """When each reported crossing will be, by the last report."""
        self._critical: set[object] = set()

    def find(self, flight: Flight) -> dict[Pair, float]:
        """The crossings as they are now."""
        return find_crossings(flight.possible_tracks(), self._horizon, tuple(self.crossings))

    def report(self, flight: Flight, now: float) -> tuple[list[str], list[Pair]]:
        """What to say of crossings that are new, changed or over; and the new ones."""
        before, self.crossings = self.crossings, self.find(flight)
        lines = []
        for pair, seconds in sorted(self.crossings.items()):
            if pair not in self._said or abs(self._said[pair] - now - seconds) > _NEW_ESTIMATE_S:
                self._said[pair] = now + seconds
                lines.append(f"{self._names(pair)} cross in {round(10 * seconds)}")
        for pair in sorted(set(self._said) - set(self.crossings)):
            del self._said[pair]
            # Of an intruder that is gone nothing is left to say.
            if pair[1] < self._agents or flight.intruder is not None:
                lines.append(f"{self._names(pair)} clear")
        return lines, sorted(set(self.crossings) - set(before))

    def hazard(self, flight: Flight) -> Literal["warning", "critical"] | None:
        """A hazard is critical only in the step in which it becomes so: each calls for help once.

        Were it critical all the time, every step would call off the planner's work and start it again.
        """
        hazards = find_hazards(flight.flown_tracks())
        critical: set[object] = {pair for pair, seconds in hazards.items() if seconds <= CRITICAL_S}
        critical |= {
            (drone, "closed")
            for drone, pilot in enumerate(flight.pilots)
            if pilot.layer in flight.closed and not pilot.there
        }
        new = critical - self._critical
        self._critical = critical
        if new:
            return "critical"
        return "warning" if hazards or critical else None

    def _names(self, pair: Pair) -> str:
        one, other = pair
        return f"{drone_name(one)} and {INTRUDER if other == self._agents else drone_name(other)}"
