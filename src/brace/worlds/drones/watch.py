"""The monitor's memory: which crossings it has reported, and which hazards are new."""

from __future__ import annotations

from typing import Literal

from brace.worlds.drones.airspace import INTRUDER, drone_name
from brace.worlds.drones.flight import Flight
from brace.worlds.drones.monitor import CRITICAL_S, Pair, find_crossings, find_hazards

NEW_ESTIMATE_S = 1.5
"""A crossing is reported again when it comes so much sooner or later than was said."""


class Watch:
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
            if pair not in self._said or abs(self._said[pair] - now - seconds) > NEW_ESTIMATE_S:
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
