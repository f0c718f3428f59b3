"""What a seed decides before the flight: who flies where, which layers are closed, what will come between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from brace.worlds.drones.airspace import GATES, LAYERS, RADIUS, Vector, gate_angle, on_circle

Draw = np.random.Generator

RUN_UP = 2.7
"""Metres outside the circle at which intruders come and go."""


@dataclass(frozen=True, slots=True)
class Difficulty:
    """How tight the airspace is."""

    closed: tuple[int, int]
    """The fewest and the most layers closed at any time."""
    speeds: tuple[float, float]
    """Metres a second."""
    horizon: float
    """How far the monitor looks ahead, in seconds."""
    limit_s: float
    """When an episode ends."""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What comes between; pairs of numbers are the ends of uniform draws, in seconds or metres a second."""

    switch_gap: tuple[float, float] | None
    """Between two layers closed or opened."""
    intruders: int
    intruder_speed: float
    goal_changes: int
    """How often the tower sends a drone elsewhere."""
    gust_gap: tuple[float, float] | None
    """Between two gusts."""
    gust_speed: float
    """Of the strongest."""


DIFFICULTIES = {
    "easy": Difficulty((2, 3), (1.2, 1.5), 3.5, 30.0),
    "normal": Difficulty((2, 3), (1.2, 1.8), 2.7, 25.0),
    "hard": Difficulty((3, 4), (1.5, 2.0), 2.2, 22.0),
}
DISTURBANCES = {
    "none": Disturbance(None, 0, 0.0, 0, None, 0.0),
    "normal": Disturbance((3.5, 6.0), 2, 1.8, 1, (4.0, 8.0), 2.5),
    "strong": Disturbance((2.0, 4.0), 3, 2.2, 2, (2.5, 5.0), 3.5),
}


class LayerSwitch(NamedTuple):
    """The tower closes a layer or opens it again."""

    at: float
    layer: int
    closed: bool


class GoalChange(NamedTuple):
    """The tower sends a drone elsewhere."""

    at: float
    drone: int
    gate: int


class Intruder(NamedTuple):
    """A drone that is not ours flies straight through."""

    at: float
    layer: int
    start: Vector
    end: Vector
    speed: float


class Gust(NamedTuple):
    """Wind over the whole intersection."""

    at: float
    until: float
    wind: Vector
    toward: int
    """The gate it blows to."""
    speed: float


Happening = LayerSwitch | GoalChange | Intruder | Gust


@dataclass(frozen=True, slots=True)
class Scenario:
    """One episode before anyone has decided anything."""

    starts: tuple[int, ...]
    goals: tuple[int, ...]
    layers: tuple[int, ...]
    speeds: tuple[float, ...]
    log: tuple[tuple[int, bool], ...]
    """What the tower said before the flight: layer, closed or not."""
    closed: frozenset[int]
    """What follows from that."""
    storm: Vector
    """The wind inside closed layers."""
    happenings: tuple[Happening, ...]
    """In order of time."""


def draw_scenario(seed: int, agents: int, difficulty: Difficulty, disturbance: Disturbance) -> Scenario:
    """Each part has a random stream of its own, and none depends on what is flown."""
    layout, tower, intruders, goals, weather = (np.random.default_rng([seed, part]) for part in range(5))
    starts, ends = _draw_routes(layout, agents)
    log = _draw_log(tower, difficulty)
    closed = frozenset(layer for layer, shut in dict(log).items() if shut)
    # All begin on one layer: whoever crosses has to part.
    first = int(layout.choice([layer for layer in LAYERS if layer not in closed]))
    switches = _draw_switches(tower, closed, difficulty, disturbance)
    happenings: list[Happening] = [
        *switches,
        *_draw_intruders(intruders, closed, switches, disturbance),
        *_draw_goal_changes(goals, starts, ends, disturbance),
        *_draw_gusts(weather, difficulty, disturbance),
    ]
    return Scenario(
        starts=starts,
        goals=ends,
        layers=(first,) * agents,
        speeds=tuple(round(float(layout.uniform(*difficulty.speeds)), 1) for _ in range(agents)),
        log=log,
        closed=closed,
        storm=np.append(on_circle(float(weather.uniform(0, 2 * np.pi)), 2.5), 0.0),
        happenings=tuple(sorted(happenings, key=lambda happening: happening.at)),
    )


def _draw_routes(draw: Draw, agents: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Start gates and goal gates, each used once, every goal on the other side of the circle."""
    starts = [int(gate) + 1 for gate in draw.permutation(GATES)[:agents]]
    while True:
        ends = [int(gate) + 1 for gate in draw.permutation(GATES)[:agents]]
        if all(_apart(start, end) >= 3 for start, end in zip(starts, ends, strict=True)):
            return tuple(starts), tuple(ends)


def _apart(one: int, other: int) -> int:
    steps = abs(one - other) % GATES
    return min(steps, GATES - steps)


def _draw_log(draw: Draw, difficulty: Difficulty) -> tuple[tuple[int, bool], ...]:
    """Layers closed and opened in turn before the flight; every layer is spoken of at least once."""
    closed: set[int] = set()
    log: list[tuple[int, bool]] = []
    wanted = int(draw.integers(difficulty.closed[0], difficulty.closed[1] + 1))
    # So long that the latest word on a layer has to be found among older ones.
    while len(log) < 14 or len({layer for layer, _ in log}) < len(LAYERS) or len(closed) != wanted:
        layer = int(draw.choice(LAYERS))
        if layer in closed:
            closed.remove(layer)
        elif len(closed) < difficulty.closed[1]:
            closed.add(layer)
        else:
            continue
        log.append((layer, layer in closed))
    return tuple(log)


def _draw_switches(
    draw: Draw, closed: frozenset[int], difficulty: Difficulty, disturbance: Disturbance
) -> list[LayerSwitch]:
    switches: list[LayerSwitch] = []
    if disturbance.switch_gap is None:
        return switches
    fewest, most = difficulty.closed
    at = float(draw.uniform(*disturbance.switch_gap))
    while at < difficulty.limit_s:
        # Close first where there is room: a layer that only opens disturbs nobody.
        close = len(closed) < most and (len(closed) <= fewest or draw.random() < 0.6)
        layer = int(draw.choice([layer for layer in LAYERS if (layer in closed) != close]))
        closed ^= {layer}
        switches.append(LayerSwitch(at, layer, close))
        # For the same reason the next switch comes sooner after an opening.
        at += float(draw.uniform(*disturbance.switch_gap)) / (1 if close else 2)
    return switches


def _draw_intruders(
    draw: Draw, closed: frozenset[int], switches: list[LayerSwitch], disturbance: Disturbance
) -> list[Intruder]:
    """One after the other, each through two gaps between gates and on a layer that is open when it comes."""
    intruders = []
    at = float(draw.uniform(1.0, 4.0))
    for _ in range(disturbance.intruders):
        shut = set(closed)
        for switch in switches:
            if switch.at <= at:
                shut = shut | {switch.layer} if switch.closed else shut - {switch.layer}
        entry = int(draw.integers(GATES))
        leave = entry + int(draw.integers(3, 6))
        # Between gates, where no drone starts or is parked.
        into, out = (on_circle((gate_angle(gap + 1) + gate_angle(gap + 2)) / 2) for gap in (entry, leave))
        run_up = (out - into) * (RUN_UP / float(np.linalg.norm(out - into)))
        layer = int(draw.choice([layer for layer in LAYERS if layer not in shut]))
        intruders.append(Intruder(at, layer, into - run_up, out + run_up, disturbance.intruder_speed))
        # No way is longer than that, so there is one intruder at a time.
        at += 2 * (RADIUS + RUN_UP) / disturbance.intruder_speed + float(draw.uniform(1.0, 3.0))
    return intruders


def _draw_goal_changes(
    draw: Draw, starts: tuple[int, ...], ends: tuple[int, ...], disturbance: Disturbance
) -> list[GoalChange]:
    """A drone is sent to a gate nobody flies to; where there is none, two drones change places."""
    goals = list(ends)
    changes = []
    at = float(draw.uniform(2.0, 5.0))
    for drone in draw.permutation(len(starts))[: disturbance.goal_changes]:
        choices = [gate for gate in range(1, GATES + 1) if _apart(gate, starts[drone]) >= 2]
        free = [gate for gate in choices if gate not in goals]
        gate = int(draw.choice(free or [gate for gate in choices if gate != goals[drone]]))
        if gate in goals:
            other = goals.index(gate)
            goals[other] = goals[drone]
            changes.append(GoalChange(at, other, goals[other]))
        goals[drone] = gate
        changes.append(GoalChange(at, int(drone), gate))
        at += float(draw.uniform(2.0, 4.0))
    return changes


def _draw_gusts(draw: Draw, difficulty: Difficulty, disturbance: Disturbance) -> list[Gust]:
    gusts: list[Gust] = []
    if disturbance.gust_gap is None:
        return gusts
    at = float(draw.uniform(*disturbance.gust_gap))
    while at < difficulty.limit_s:
        toward = int(draw.integers(1, GATES + 1))
        speed = disturbance.gust_speed * float(draw.uniform(0.6, 1.0))
        wind = np.append(on_circle(gate_angle(toward), speed), 0.0)
        gusts.append(Gust(at, at + float(draw.uniform(1.0, 2.5)), wind, toward, speed))
        at += float(draw.uniform(*disturbance.gust_gap))
    return gusts
