"""What speaks against a well-formed plan, and the plan of one who has read nothing."""

from __future__ import annotations

from brace.plan import Plan, SkillCall
from brace.plan.skills import finite_number
from brace.worlds.drones.airspace import GATES, LAYERS, drone_name, gate_name

LONGEST_HOLD_S = 20.0


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
