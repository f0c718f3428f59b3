"""Reading the log as a perfect reader would: the latest word on each fact, then a simple choice of layers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from brace.plan import Plan, SkillCall
from brace.worlds.drones.airspace import INTRUDER, LAYERS, drone_name, gate_name

# Not more than 9 digits, because int() fails on very long ones; ASCII, because \d takes other scripts.
_LINE = re.compile(r"\[\w+ (\d{1,9})(?: a(\d{1,9}))?\] (.*)", re.ASCII)
WAIT = SkillCall("hold", ("1",))


@dataclass(slots=True)
class Facts:
    """What matters of all that was said. The intruder's number is that of our drones: one after the last."""

    agents: int
    goals: dict[int, int] = field(default_factory=dict)
    parked: dict[int, int] = field(default_factory=dict)
    """The gate a drone last arrived at."""
    layers: dict[int, int] = field(default_factory=dict)
    """The layer each drone is on, the intruder included while it is there."""
    closed: set[int] = field(default_factory=set)
    crossing: set[tuple[int, int]] = field(default_factory=set)

    def arrived(self, drone: int) -> bool:
        """Whether a drone is where it is to go."""
        return drone in self.goals and self.parked.get(drone) == self.goals[drone]

    def partners(self, drone: int) -> list[int]:
        """Whom the drone's way crosses, in order of number."""
        return sorted({one for pair in self.crossing if drone in pair for one in pair} - {drone})


def read(text: str, agents: int) -> Plan:
    """The plan that follows from this prompt, and from nothing else."""
    return decide(gather(text, agents))


def gather(text: str, agents: int) -> Facts:
    """Take in every line that can be understood, in order of time; later lines overrule earlier ones."""
    facts = Facts(agents)
    lines = [match.groups() for match in map(_LINE.match, text.splitlines()) if match is not None]
    # A prompt has its head first, whenever that was said.
    for _, agent, said in sorted(lines, key=lambda line: int(line[0])):
        for pattern, take in _RULES:
            match = pattern.fullmatch(said.strip())
            if match is not None:
                take(facts, -1 if agent is None else int(agent), match)
                break
    return facts


def decide(facts: Facts) -> Plan:
    """In order of number, each drone that is not there yet gets a layer, or waits.

    Senior to it are partners with a lower number, those that have arrived, and the intruder. It stays on its
    layer if that is open and no senior is there; otherwise it takes the nearest open layer that it reaches
    without meeting a partner. If there is none, it lets the senior in its way pass.
    """
    layers = dict(facts.layers)
    # In a text with holes all of them may seem closed.
    open_layers = [layer for layer in LAYERS if layer not in facts.closed] or list(LAYERS)
    steps: list[tuple[int, tuple[SkillCall, ...]]] = []
    given: set[int] = set()
    for drone in range(facts.agents):
        if facts.arrived(drone) or drone not in facts.goals:
            continue
        partners = [one for one in facts.partners(drone) if one in layers]
        senior = [one for one in partners if one < drone or one == facts.agents or facts.arrived(one)]
        layer, ahead = _choose(layers.get(drone, open_layers[0]), open_layers, layers, partners, senior)
        layers[drone] = layer
        calls = [SkillCall("layer", (str(layer),))]
        if ahead is not None:
            calls.append(SkillCall("yield", (INTRUDER if ahead == facts.agents else drone_name(ahead),)))
        gate = facts.goals[drone]
        # Only a text with holes sends two drones to one gate, and the world would refuse the whole plan.
        calls.append(WAIT if gate in given else SkillCall("goto", (gate_name(gate),)))
        given.add(gate)
        steps.append((drone, tuple(calls)))
    return Plan(tuple(steps)) if steps else Plan(((0, (WAIT,)),))


def _choose(
    own: int, open_layers: list[int], layers: dict[int, int], partners: list[int], senior: list[int]
) -> tuple[int, int | None]:
    """A layer, and whom to let pass first, if anyone."""
    on_own = [one for one in senior if layers[one] == own]
    if own in open_layers and not on_own:
        return own, None
    others = sorted(
        (layer for layer in open_layers if layer != own), key=lambda layer: (abs(layer - own), layer)
    )
    for layer in others:
        if not any(_between(layers[one], own, layer) for one in partners):
            return layer, None
    if own in open_layers or not others:
        return own, on_own[0] if on_own else None
    met = [one for one in senior if _between(layers[one], own, others[0])]
    return others[0], met[0] if met else None


def _between(layer: int, own: int, target: int) -> bool:
    """Whether a layer is met on the way to the target, the target included."""
    return own < layer <= target or target <= layer < own


Take = Callable[[Facts, int, "re.Match[str]"], None]


def _ours(facts: Facts, drone: int) -> bool:
    return 0 <= drone < facts.agents


def _take_goal(facts: Facts, _: int, match: re.Match[str]) -> None:
    drone, gate = int(match[1]), int(match[2])
    if _ours(facts, drone):
        facts.goals[drone] = gate


def _take_switch(facts: Facts, _: int, match: re.Match[str]) -> None:
    layer = int(match[1])
    if match[2] == "closed":
        facts.closed.add(layer)
    else:
        facts.closed.discard(layer)


def _take_pair(facts: Facts, _: int, match: re.Match[str]) -> None:
    one, other = int(match[1]), facts.agents if match[2] == INTRUDER else int(match[3])
    if not _ours(facts, one) or not (match[2] == INTRUDER or _ours(facts, other)):
        return
    if match[4].startswith("cross"):
        facts.crossing.add((one, other))
    else:
        facts.crossing.discard((one, other))


def _take_intruder(facts: Facts, _: int, match: re.Match[str]) -> None:
    if match[1] is not None:
        facts.layers[facts.agents] = int(match[1])
        return
    facts.layers.pop(facts.agents, None)
    facts.crossing = {pair for pair in facts.crossing if facts.agents not in pair}


def _take_telemetry(facts: Facts, agent: int, match: re.Match[str]) -> None:
    if not _ours(facts, agent):
        return
    facts.layers[agent] = int(match[1])
    if match[2] is not None:
        facts.parked[agent] = int(match[2])
    if match[3] is not None:
        # Where it flies may be outdated, but is better than nothing.
        facts.goals.setdefault(agent, int(match[3]))


def _take_layer(facts: Facts, agent: int, match: re.Match[str]) -> None:
    if _ours(facts, agent):
        facts.layers[agent] = int(match[1])


def _take_arrival(facts: Facts, agent: int, match: re.Match[str]) -> None:
    if _ours(facts, agent):
        facts.parked[agent] = int(match[1])


def _take_plan(facts: Facts, _: int, match: re.Match[str]) -> None:
    """The last plan says which layer each was given, even where nothing else is left in the text."""
    for drone, layer in _PLANNED.findall(match[0]):
        if _ours(facts, int(drone or 0)):
            facts.layers[int(drone or 0)] = int(layer)


_PLANNED = re.compile(r"(?:(\d): )?layer\(([1-6])\)")
_RULES: tuple[tuple[re.Pattern[str], Take], ...] = tuple(
    (re.compile(pattern, re.ASCII), take)
    for pattern, take in (
        (
            r"at -?\d+ -?\d+ layer ([1-6])(?: parked at gate ([1-8])| to gate ([1-8]).*| waiting.*)?",
            _take_telemetry,
        ),
        (r"layer ([1-6]) taken", _take_layer),
        (r"arrived at gate ([1-8])", _take_arrival),
        (r"drone (\d) flies from gate [1-8] to gate ([1-8])", _take_goal),
        (r"drone (\d): fly to gate ([1-8]) instead", _take_goal),
        (r"layer ([1-6]) (closed|open)(?: again)?", _take_switch),
        (r"drone (\d) and (intruder|drone (\d)) (cross in \d+|clear)", _take_pair),
        (r"(?:\d: )?(?:layer|yield|hold|goto)\(.*", _take_plan),
        (r"intruder (?:on layer ([1-6])|gone)", _take_intruder),
    )
)
