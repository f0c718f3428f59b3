"""The intersection: eight gates on a circle, six layers above each other, and what plans say about them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from brace.plan import Arg, Plan, Skill, SkillCall, SkillSet
from brace.plan.skills import finite_number

Vector = NDArray[np.float64]

GATES = 8
RADIUS = 7.0
LANE = math.radians(7)
"""Drones leave a gate on its one side and arrive on the other, so that a parked drone is in nobody's way."""
LAYERS = range(1, 7)
LOWEST, SPACING = 1.2, 0.8
INTRUDER = "intruder"
LONGEST_HOLD_S = 20.0


def gate_angle(gate: int) -> float:
    """Where on the circle a gate lies; gates are numbered from 1."""
    return (gate - 1) * math.tau / GATES


def departure(gate: int) -> Vector:
    """Where a drone that starts from this gate hovers, in metres."""
    return on_circle(gate_angle(gate) - LANE)


def parking(gate: int) -> Vector:
    """Where a drone that has flown to this gate stays."""
    return on_circle(gate_angle(gate) + LANE)


def on_circle(angle: float, radius: float = RADIUS) -> Vector:
    """A point on a circle around the middle."""
    return np.array([radius * math.cos(angle), radius * math.sin(angle)])


def altitude(layer: int) -> float:
    """The height of a layer's middle, in metres."""
    return LOWEST + SPACING * (layer - 1)


def nearest_layer(height: float) -> int:
    """The layer whose middle is nearest to a height."""
    return min(max(round((height - LOWEST) / SPACING) + 1, LAYERS[0]), LAYERS[-1])


def gate_name(gate: int) -> str:
    """A gate as plans and messages name it."""
    return f"gate {gate}"


def drone_name(drone: int) -> str:
    """A drone as plans and messages name it."""
    return f"drone {drone}"


def skill_set(agents: int) -> SkillSet:
    """What a drone can be told."""
    return SkillSet(
        [
            Skill(
                "layer", (Arg("n", "choice", tuple(map(str, LAYERS))),), "change to layer n while flying on"
            ),
            Skill(
                "yield", (Arg("other", "name"),), "hover aside until that drone, or the intruder, has passed"
            ),
            Skill("hold", (Arg("seconds", "number"),), "hover for so long"),
            Skill("goto", (Arg("gate", "name"),), "fly straight to that gate"),
        ],
        agents=agents,
    )


def argument_names(agents: int) -> dict[str, tuple[str, ...]]:
    """The names that gates and other drones can have."""
    return {
        "gate": tuple(gate_name(gate) for gate in range(1, GATES + 1)),
        "other": (*(drone_name(drone) for drone in range(agents)), INTRUDER),
    }


def objection(plan: Plan) -> str | None:
    """Two drones for one gate, waits without end, drones that wait for themselves or for each other."""
    bound_for: dict[str, str] = {}
    waits: dict[str, str] = {}
    for drone, calls in plan.steps:
        name = drone_name(drone)
        for call in calls:
            value = call.args[0]
            if call.skill == "hold" and not 0 < (finite_number(value) or 0.0) <= LONGEST_HOLD_S:
                return f"{name}, {call}: hold for more than 0 and at most {LONGEST_HOLD_S:.0f} seconds"
            if call.skill == "goto" and bound_for.setdefault(value, name) != name:
                return f"{value} is given to {bound_for[value]} and {name}"
            if call.skill == "yield":
                if value == name:
                    return f"{name}, {call}: a drone cannot yield to itself"
                if waits.get(value) == name:
                    return f"{value} and {name} yield to each other"
                waits[name] = value
    return None


def straight_across(agents: int) -> Plan:
    """Each drone on a layer of its own, from its usual gate to the one across."""
    lines = []
    for drone in range(agents):
        layer, across = drone % len(LAYERS) + 1, (drone + GATES // 2) % GATES + 1
        lines.append((drone, (SkillCall("layer", (str(layer),)), SkillCall("goto", (gate_name(across),)))))
    return Plan(tuple(lines))
