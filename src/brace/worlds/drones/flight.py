"""Who is where and flies whereto, and what went wrong: drones, the intruder, the wind. No plans, no words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from brace.plan import SkillCall
from brace.worlds.drones.airspace import SPACING, Vector, altitude, departure, nearest_layer, parking
from brace.worlds.drones.scenario import Gust, Intruder, Scenario
from brace.worlds.drones.simulator import Swarm

_ARRIVED, _INTRUDER_GONE = 0.4, 1.0
"""Metres from its place at which a drone is there, and from its end at which the intruder is out of sight."""
_BRAKE_S = 0.6
"""A drone that is to hover does so where it comes to rest: this many seconds of its speed ahead."""
_HOVER_SPEED, _APPROACH_GAIN = 1.0, 1.2
"""Metres a second, and metres a second for each metre from the target: drones slow down before they stop."""
CLIMB_GAIN, CLIMB_LIMIT = 1.5, 1.5
"""A drone's vertical speed for each metre it is off its layer, and at most, in metres a second."""
_NEAR, _NEAR_HEIGHT = 0.9, 0.3
"""Closer than this, horizontally and vertically, is a near miss."""
_FARTHEST = 20.0
"""No two are ever farther apart: the least distance of one that is alone."""
_INSIDE = 0.3
"""Within this of a layer's middle a drone is inside it."""
PASSAGE_S, CLOSED_LIMIT_S = 1.0, 4.0
"""How long each stay inside a closed layer may last for nothing (to pass through it, or to leave it), and
what all drones together may spend there beyond that."""


@dataclass(slots=True)
class Pilot:
    """What one drone is doing."""

    layer: int
    goal: int
    speed: float
    hover: Vector
    """Where it stays when it does not fly."""
    parked: int | None = None
    """The gate it has arrived at, as long as it stays there."""
    flying_to: int | None = None
    waiting: tuple[SkillCall, float] | None = None
    """What it waits for, and since when."""
    aside: bool = False
    """It lets someone pass, half a layer below its own, where nobody flies."""
    idle_s: float = 0.0
    """How long it has had nothing to do although it is not there."""

    @property
    def there(self) -> bool:
        """Whether it is where the tower wants it."""
        return self.parked == self.goal

    @property
    def height(self) -> float:
        """Where it is to be, in metres."""
        return altitude(self.layer) - (SPACING / 2 if self.aside else 0.0)


@dataclass(frozen=True, slots=True)
class Track:
    """How one drone may go on: straight to a place at a speed, then staying; meanwhile to an altitude."""

    drone: int
    position: Vector
    target: Vector
    speed: float
    altitude: float


class SafetyRecord:
    """The safety figures of one episode, kept step by step."""

    def __init__(self, drones: int, dt: float) -> None:
        self.collided: set[tuple[int, int]] = set()
        """Pairs that touched; -1 is the ground."""
        self.near_misses = 0
        self.min_distance = _FARTHEST
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
                if np.hypot(gap[0], gap[1]) < _NEAR and abs(gap[2]) < _NEAR_HEIGHT:
                    near.add((one, other))
        self.near_misses += len(near - self._near)
        self._near = near
        levels = [altitude(layer) for layer in closed]
        watched = set(bound)
        for drone in range(self._drones):
            inside = drone in watched and any(abs(positions[drone][2] - level) < _INSIDE for level in levels)
            self._stay[drone] = self._stay[drone] + self._dt if inside else 0.0
            # Tenths of a second do not sum up exactly.
            if self._stay[drone] > PASSAGE_S + 1e-9:
                self.closed_s += self._dt


class Flight:
    """One episode in the air."""

    def __init__(self, swarm: Swarm, scenario: Scenario, seed: int, dt: float) -> None:
        starts = [
            np.append(departure(gate), altitude(layer))
            for gate, layer in zip(scenario.starts, scenario.layers, strict=True)
        ]
        facts = zip(scenario.layers, scenario.goals, scenario.speeds, starts, strict=True)
        self.pilots = [Pilot(layer, goal, speed, start[:2].copy()) for layer, goal, speed, start in facts]
        self.closed = scenario.closed
        self.intruder: Intruder | None = None
        self.gust: Gust | None = None
        self.safety = SafetyRecord(len(starts), dt)
        self.flight_s = 0.0
        self._storm = scenario.storm
        self._swarm, self._dt = swarm, dt
        swarm.reset(np.array(starts), seed)
        # After the reset, which forgets the wind.
        swarm.blow(self._wind)
        self._all = swarm.positions()
        self._velocities = np.zeros_like(self._all)

    @property
    def positions(self) -> Vector:
        """Where those in the air are, the intruder last."""
        return self._all if self.intruder is not None else self._all[:-1]

    def ground_speed(self, drone: int) -> float:
        """How fast a drone moves over the ground."""
        return float(np.linalg.norm(self._velocities[drone][:2]))

    def layer_of(self, number: int) -> int | None:
        """The layer of a drone, or of the intruder, if it is there."""
        if number < len(self.pilots):
            return self.pilots[number].layer
        return None if self.intruder is None else self.intruder.layer

    def launch(self, intruder: Intruder) -> None:
        """The intruder comes."""
        self.intruder = intruder
        self._swarm.launch_intruder(np.append(intruder.start, altitude(intruder.layer)))
        self._all = self._swarm.positions()

    def intruder_leaves(self) -> bool:
        """Take the intruder away if it has reached its end."""
        intruder = self.intruder
        if intruder is None or np.linalg.norm(intruder.end - self._all[-1][:2]) >= _INTRUDER_GONE:
            return False
        self.intruder = None
        self._swarm.dismiss_intruder()
        return True

    def steer(self, drone: int, gate: int | None) -> None:
        """Let a drone fly to a gate, or hover."""
        pilot = self.pilots[drone]
        if gate is None and pilot.flying_to is not None:
            pilot.hover = (self._all[drone] + _BRAKE_S * self._velocities[drone])[:2]
        pilot.flying_to = gate
        if gate is None:
            self._fly(drone, pilot.hover, _HOVER_SPEED, pilot.height)
        else:
            pilot.parked = None
            self._fly(drone, parking(gate), pilot.speed, pilot.height)

    def _fly(self, index: int, target: Vector, speed: float, height: float) -> None:
        way = target - self._all[index][:2]
        distance = float(np.linalg.norm(way))
        flat = way * (min(speed, _APPROACH_GAIN * distance) / max(distance, 1e-9))
        climb = np.clip(CLIMB_GAIN * (height - self._all[index][2]), -CLIMB_LIMIT, CLIMB_LIMIT)
        self._swarm.command(index, np.append(flat, climb))

    def advance(self) -> set[tuple[int, int]]:
        """Let a step pass. Returns who touched whom; the ground is number -1."""
        flown = self.intruder
        if flown is not None:
            self._fly(len(self.pilots), flown.end, flown.speed, altitude(flown.layer))
        touched = self._swarm.advance()
        before, self._all = self._all, self._swarm.positions()
        self._velocities = (self._all - before) / self._dt
        bound = [drone for drone, pilot in enumerate(self.pilots) if not pilot.there]
        self.safety.update(self.positions, touched, self.closed, bound)
        self.flight_s += len(bound) * self._dt
        return touched

    def arrivals(self) -> list[tuple[int, int]]:
        """The drones that have just come to the gate they were flying to, where they are parked now."""
        arrived = []
        for drone, pilot in enumerate(self.pilots):
            gate = pilot.flying_to
            if gate is not None and np.linalg.norm(parking(gate) - self._all[drone][:2]) <= _ARRIVED:
                pilot.parked, pilot.flying_to, pilot.hover = gate, None, parking(gate)
                arrived.append((drone, gate))
        return arrived

    def possible_tracks(self) -> list[Track]:
        """How each may go on: the way it flies, the way it is to fly, and, unless it flies, staying."""
        tracks = []
        for drone, pilot in enumerate(self.pilots):
            place = self._all[drone]
            if pilot.flying_to is None:
                tracks.append(Track(drone, place, place, 0.0, pilot.height))
            elif pilot.flying_to != pilot.goal:
                tracks.append(Track(drone, place, parking(pilot.flying_to), pilot.speed, pilot.height))
            if not pilot.there:
                tracks.append(Track(drone, place, parking(pilot.goal), pilot.speed, pilot.height))
        return [*tracks, *self._intruder_tracks()]

    def flown_tracks(self) -> list[Track]:
        """How each goes on as it is flying now."""
        tracks = []
        for drone, pilot in enumerate(self.pilots):
            target, speed = pilot.hover, _HOVER_SPEED
            if pilot.flying_to is not None:
                target, speed = parking(pilot.flying_to), pilot.speed
            tracks.append(Track(drone, self._all[drone], target, speed, pilot.height))
        return [*tracks, *self._intruder_tracks()]

    def _intruder_tracks(self) -> list[Track]:
        flown = self.intruder
        if flown is None:
            return []
        return [Track(len(self.pilots), self._all[-1], flown.end, flown.speed, altitude(flown.layer))]

    def _wind(self, time: float, places: Vector) -> Vector:
        """Gusts everywhere, a storm inside closed layers. PyFlyt asks very often, so this must be cheap."""
        wind = np.zeros_like(places) if self.gust is None else np.tile(self.gust.wind, (len(places), 1))
        for row, height in enumerate(places[:, 2].tolist()):
            if nearest_layer(height) in self.closed:
                wind[row] += self._storm
        return wind
