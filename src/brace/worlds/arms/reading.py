"""Readers of prompts: pure functions from text to the best plan the text allows. They know no episode.

Each looks up the latest line of each sort and makes a small choice. Lines may be missing or cut anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from brace.plan import Plan, SkillCall

Place = tuple[int, int, int, int]

_LINE = re.compile(r"\[(\w+) (\d+)(?: a(\d+))?\] (.*)")
_SIGHTING = re.compile(r"(.+) at (-?\d+) (-?\d+) (-?\d+) (?:yaw|tilt) (-?\d+)")
_STATE = re.compile(r"at (-?\d+) (-?\d+) (-?\d+) gripper (\w+)")


class Line(NamedTuple):
    """One line of a prompt."""

    kind: str
    agent: int | None
    text: str


def lines(prompt: str) -> Iterator[Line]:
    """The lines that begin as they should; a compressor may have cut their ends."""
    for line in prompt.splitlines():
        found = _LINE.match(line)
        if found is not None:
            yield Line(found[1], None if found[3] is None else int(found[3]), found[4].strip())


def sighting(text: str) -> tuple[str, Place] | None:
    """What the camera saw, and where."""
    found = _SIGHTING.fullmatch(text)
    if found is None:
        return None
    return found[1], (int(found[2]), int(found[3]), int(found[4]), int(found[5]))


def gripper_state(text: str) -> str | None:
    """What an arm says of its gripper."""
    found = _STATE.fullmatch(text)
    return None if found is None else found[4]


def reach_for(place: Sequence[int]) -> list[SkillCall]:
    """Go there and close."""
    return [SkillCall("reach", tuple(str(number) for number in place)), SkillCall("grasp")]


def lift_plan(before: Mapping[int, Sequence[SkillCall]], height: int) -> Plan:
    """What each arm does first, then both together: up."""
    up = (SkillCall("sync"), SkillCall("lift", (str(height),)))
    return Plan(tuple((arm, (*calls, *up)) for arm, calls in before.items()))


def read_lift(prompt: str, layout: Mapping[int, Place], height: int = 160) -> Plan:
    """Arm 1 takes the hot handle, arm 0 the other, each where it was seen last; the height is the last one said."""
    handles: dict[str, Place] = {}
    hot: str | None = None
    states: dict[int, str] = {}
    for line in lines(prompt):
        if line.kind == "message":
            if found := re.fullmatch(r"the (\w+) handle is hot", line.text):
                hot = found[1]
            elif found := re.fullmatch(r"lift to (\d+)(?: instead)?", line.text):
                height = min(int(found[1]), 250)
        elif line.kind == "observation" and line.agent is not None:
            state = gripper_state(line.text)
            if state is not None:
                states[line.agent] = state
        elif line.kind == "observation":
            seen = sighting(line.text)
            if seen is not None:
                handles[seen[0].removesuffix(" handle")] = seen[1]
    first = {}
    for arm, place in _share(handles, hot, layout).items():
        state = states.get(arm, "open")
        if state == "holding":
            first[arm] = []
        elif state == "closing":
            first[arm] = [SkillCall("grasp")]
        else:
            first[arm] = reach_for(place)
    return lift_plan(first, height)


def _share(handles: Mapping[str, Place], hot: str | None, layout: Mapping[int, Place]) -> dict[int, Place]:
    """Which arm goes where. Who does not know what is hot gives each arm the handle on its side."""
    colours = ("blue", "green")
    if hot not in colours:
        sides = sorted(handles, key=lambda colour: handles[colour][1])
        hot = sides[-1] if len(sides) == 2 else "blue"
    cold = colours[1 - colours.index(hot)] if hot in colours else ""
    return {0: handles.get(cold, layout[0]), 1: handles.get(hot, layout[1])}


def present_at(place: Sequence[int]) -> SkillCall:
    """Hold it out there."""
    return SkillCall("present", tuple(str(number) for number in place))


def handover_plan(
    grip: Sequence[int] | None,
    place: Sequence[int],
    gripper: str,
    tail: Sequence[int] | None = None,
    taker: str = "open",
) -> Plan:
    """What is next: pick up and present, or take the presented tail, or let go.

    `gripper` and `taker` are the states of arm 0's and arm 1's grippers.
    """
    wait, sync, grasp = SkillCall("wait"), SkillCall("sync"), SkillCall("grasp")
    present = present_at(place)
    if taker == "holding":
        first = SkillCall("release") if gripper == "holding" else wait
        return Plan(((0, (first,)), (1, (wait,))))
    if gripper == "holding" and tail is not None:
        take = [grasp] if taker == "closing" else reach_for(tail)
        return Plan(((0, (sync, SkillCall("release"))), (1, (*take, sync))))
    if gripper == "holding":
        return Plan(((0, (present,)), (1, (wait,))))
    if gripper == "closing" or grip is None:
        return Plan(((0, (grasp, present)), (1, (wait,))))
    return Plan(((0, (*reach_for(grip), present)), (1, (wait,))))


def read_handover(prompt: str, layout: Place, usual: Sequence[int]) -> Plan:
    """The clean grip and the tail where they were seen last; the place the goal names; the arms' own states."""
    seen: dict[str, Place] = {}
    places: dict[str, tuple[int, ...]] = {}
    goal, oily, presented = "", "", ""
    states: dict[int, str] = {}
    for line in lines(prompt):
        if line.agent is not None and line.kind == "observation":
            state = gripper_state(line.text)
            if state is not None:
                states[line.agent] = state
                if line.agent == 0 and state != "holding":
                    presented = ""
        elif line.agent == 0 and line.kind == "action":
            if line.text.startswith("present("):
                presented = line.text
        elif line.kind == "observation":
            found = sighting(line.text)
            if found is not None:
                seen[found[0]] = found[1]
        elif words := re.fullmatch(r"place (\w) is at (-?\d+) (-?\d+) (-?\d+)", line.text):
            places[words[1]] = (int(words[2]), int(words[3]), int(words[4]))
        elif words := re.fullmatch(r"hand the hammer over at place (\w)", line.text):
            goal = words[1]
        elif words := re.fullmatch(r"(?:grip \w is clean again and )?grip (\w) is oily", line.text):
            oily = words[1]
    clean = "p" if oily == "q" else "q" if oily == "p" else next(iter(sorted(seen)), "grip p")[-1]
    grip = seen.get(f"grip {clean}", layout)
    place = places.get(goal, usual)
    # A hammer that is held out elsewhere must be brought to the place first.
    tail = seen.get("tail") if presented == f"{present_at(place)} done" else None
    return handover_plan(grip, place, states.get(0, "open"), tail, states.get(1, "open"))
