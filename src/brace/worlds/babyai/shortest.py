"""The fewest actions the jobs could be done with: what `spl` compares with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from brace.worlds.babyai.layout import MOVES, FloorPlan
from brace.worlds.babyai.scenario import Job


def fewest_actions(
    floor: FloorPlan, objects: Mapping[str, int], start: tuple[int, int], jobs: Iterable[Job]
) -> float:
    """For one robot alone, who knows where everything is, with every door open: a lower bound."""
    lying = dict(objects)
    total, here = 0, start
    for job in jobs:
        for name, beside in ((job.thing, False), (job.beside, True)):
            occupied = set(lying.values())
            spots = floor.neighbours[lying[name]] if beside else (lying[name],)
            targets = {spot for spot in spots if not beside or spot not in occupied}
            actions, here, spot = _approach(floor, occupied, here, targets)
            total += actions + 1
            if beside:
                lying[job.thing] = spot
            else:
                del lying[name]
    return float(total)


def _approach(
    floor: FloorPlan, occupied: set[int], start: tuple[int, int], targets: set[int]
) -> tuple[int, tuple[int, int], int]:
    """Turns and steps until one of the targets is right ahead; where one stands then, and which it is."""
    seen, layer, actions = {start}, [start], 0
    while layer:
        following = []
        for cell, heading in layer:
            ahead = cell + MOVES[heading]
            if ahead in targets:
                return actions, (cell, heading), ahead
            states = [(cell, (heading + 1) % 4), (cell, (heading - 1) % 4)]
            if ahead in floor.neighbours[cell] and ahead not in occupied:
                states.append((ahead, heading))
            following += [state for state in states if state not in seen]
            seen.update(states)
        layer, actions = following, actions + 1
    return 0, start, min(targets, default=start[0])
