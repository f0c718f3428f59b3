"""The perfect readers without their simulators: what labels a lesson, on any machine.

Besides the plan, a reader tells the facts it found. Asked for one by one they teach a model to look up
exactly what plans are made of, many times for each text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from brace.errors import UnknownNameError
from brace.plan import Plan
from brace.training.logs import Log
from brace.worlds.arms import handover, lift, peg
from brace.worlds.arms.reading import (
    gather_handover,
    gather_lift,
    gather_peg,
    read_handover,
    read_lift,
    read_peg,
)
from brace.worlds.babyai import references as babyai
from brace.worlds.drones import reading as drones

Facts = list[tuple[str, str]]
"""What can be asked about a text, and the answer."""


class Reader(NamedTuple):
    """What a perfect reader makes of a text."""

    plan: Callable[[str], Plan]
    facts: Callable[[str], Facts]


def reader_of(log: Log) -> Reader:
    """The reader of the log's world and team."""
    if log.world not in _READERS:
        raise UnknownNameError("reader of world", log.world, _READERS)
    return _READERS[log.world](log.agents)


def _babyai_facts(text: str, agents: int) -> Facts:
    notes = babyai.gather(text, agents)
    wanted = {name for jobs in notes.jobs.values() for job in jobs for name in (job.thing, job.beside)}
    facts = [
        (f"where is the {name}", f"room {notes.place[name]}" if name in notes.place else "unknown")
        for name in sorted(wanted | notes.place.keys())
    ]
    for agent in sorted(notes.jobs):
        facts.append((f"what does agent {agent} hold", notes.holds.get(agent, "nothing")))
        facts.append((f"how many jobs has agent {agent} done", str(notes.done.get(agent, 0))))
    for room, lock in notes.locks.items():
        facts.append((f"what blocks room {room}", f"{lock.colour} door {lock.rooms[0]} {lock.rooms[1]}"))
    return facts


def _drones_facts(text: str, agents: int) -> Facts:
    notes = drones.gather(text, agents)
    facts: Facts = [("which layers are closed", _joined(sorted(notes.closed)))]
    for drone in range(agents):
        facts.append((f"where does drone {drone} go", str(notes.goals.get(drone, "unknown"))))
        facts.append((f"which layer has drone {drone}", str(notes.layers.get(drone, "unknown"))))
        facts.append((f"whom does drone {drone} cross", _joined(notes.partners(drone))))
        facts.append((f"is drone {drone} there", "yes" if notes.arrived(drone) else "no"))
    if agents in notes.layers:
        facts.append(("which layer has the intruder", str(notes.layers[agents])))
    return facts


def _lift_facts(text: str) -> Facts:
    notes = gather_lift(text)
    facts = [("which handle is hot", notes.hot or "unknown"), ("how high", str(notes.height))]
    return facts + _seen(notes.handles) + _states(notes.states)


def _handover_facts(text: str) -> Facts:
    notes = gather_handover(text)
    facts = [
        ("which place", notes.goal or "unknown"),
        ("which grip is clean", notes.clean),
        ("what was presented", notes.presented or "nothing"),
        ("where is the place", _joined(notes.places.get(notes.goal, ()))),
    ]
    return facts + _seen(notes.seen) + _states(notes.states)


def _peg_facts(text: str) -> Facts:
    notes = gather_peg(text)
    names = [name for name, place in sorted(notes.places.items()) if place in notes.free]
    facts = [
        ("how deep", str(notes.depth)),
        ("which places are free", " ".join(names) or "none"),
        ("where is the board", notes.board or "unknown"),
        ("where is the peg", notes.peg or "unknown"),
        ("where is the hole", "unknown" if notes.hole is None else _joined(notes.hole)),
        ("where to meet", _joined(notes.free[0]) if notes.free else "unknown"),
    ]
    return facts + [(f"is {name} free", "no" if name in notes.occupied else "yes") for name in notes.places]


def _seen(things: Mapping[str, Sequence[int]]) -> Facts:
    return [(f"where is the {name}", _joined(place)) for name, place in things.items()]


def _states(states: Mapping[int, str]) -> Facts:
    return [(f"how is gripper {arm}", state) for arm, state in sorted(states.items())]


def _joined(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers)) or "none"


_READERS: dict[str, Callable[[int], Reader]] = {
    "babyai-v1": lambda agents: Reader(
        partial(babyai.read, agents=agents), partial(_babyai_facts, agents=agents)
    ),
    "drones-v1": lambda agents: Reader(
        partial(drones.read, agents=agents), partial(_drones_facts, agents=agents)
    ),
    "lift-v1": lambda _: Reader(
        partial(read_lift, layout=lift.LAYOUT, height=lift.USUAL_HEIGHT), _lift_facts
    ),
    "handover-v1": lambda _: Reader(
        partial(read_handover, layout=handover.LAYOUT, usual=handover.PLACES["b"]), _handover_facts
    ),
    "peg-v1": lambda _: Reader(partial(read_peg, usual=peg.PLACES["m2"]), _peg_facts),
}
