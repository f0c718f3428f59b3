"""The reader of `lift-v1`: which handle is hot, where the handles were seen last, and how high."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from brace.plan import Plan, SkillCall
from brace.worlds.arms.reading import Place, gripper_state, lines, reach_for, sighting


def lift_plan(before: Mapping[int, Sequence[SkillCall]], height: int) -> Plan:
    """What each arm does first, then both together: up."""
    up = (SkillCall("sync"), SkillCall("lift", (str(height),)))
    return Plan(tuple((arm, (*calls, *up)) for arm, calls in before.items()))


@dataclass
class LiftNotes:
    """What matters of all that was said."""

    height: int
    hot: str | None = None
    handles: dict[str, Place] = field(default_factory=dict)
    states: dict[int, str] = field(default_factory=dict)


def gather_lift(prompt: str, height: int = 160) -> LiftNotes:
    """The latest word on each fact; the last height said counts."""
    notes = LiftNotes(height)
    for line in lines(prompt):
        if line.kind == "message":
            if found := re.fullmatch(r"the (\w+) handle is hot", line.text):
                notes.hot = found[1]
            elif found := re.fullmatch(r"lift to (\d+)(?: instead)?", line.text):
                notes.height = min(int(found[1]), 250)
        elif line.kind == "observation" and line.agent is not None:
            state = gripper_state(line.text)
            if state is not None:
                notes.states[line.agent] = state
        elif line.kind == "observation":
            seen = sighting(line.text)
            if seen is not None:
                notes.handles[seen[0].removesuffix(" handle")] = seen[1]
    return notes


def read_lift(prompt: str, layout: Mapping[int, Place], height: int = 160) -> Plan:
    """Arm 1 takes the hot handle, arm 0 the other, each where last seen."""
    notes = gather_lift(prompt, height)
    first: dict[int, list[SkillCall]] = {}
    for arm, place in _share(notes.handles, notes.hot, layout).items():
        state = notes.states.get(arm, "open")
        if state == "holding":
            first[arm] = []
        elif state == "closing":
            first[arm] = [SkillCall("grasp")]
        else:
            first[arm] = reach_for(place)
    return lift_plan(first, notes.height)


def _share(handles: Mapping[str, Place], hot: str | None, layout: Mapping[int, Place]) -> dict[int, Place]:
    """Which arm goes where. Who does not know what is hot gives each arm the handle on its side."""
    colours = ("blue", "green")
    if hot not in colours:
        sides = sorted(handles, key=lambda colour: handles[colour][1])
        hot = sides[-1] if len(sides) == 2 else "blue"
    cold = colours[1 - colours.index(hot)] if hot in colours else ""
    return {0: handles.get(cold, layout[0]), 1: handles.get(hot, layout[1])}
