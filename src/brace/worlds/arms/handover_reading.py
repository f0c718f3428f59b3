"""The reader of `handover-v1`: which grip is clean, where the hammer was seen last, where it is wanted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from brace.plan import Plan, SkillCall
from brace.worlds.arms.reading import Place, gripper_state, lines, reach_for, sighting


def present_at(place: Sequence[int]) -> SkillCall:
    """Hold it out there."""
    return SkillCall("present", tuple(str(number) for number in place))


def handover_plan(
    grip: Sequence[int],
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
    if gripper == "closing":
        return Plan(((0, (grasp, present)), (1, (wait,))))
    return Plan(((0, (*reach_for(grip), present)), (1, (wait,))))


@dataclass
class HandoverNotes:
    """What matters of all that was said."""

    seen: dict[str, Place] = field(default_factory=dict)
    places: dict[str, tuple[int, ...]] = field(default_factory=dict)
    goal: str = ""
    oily: str = ""
    presented: str = ""
    """Arm 0's last `present(…) done`, while it still holds."""
    states: dict[int, str] = field(default_factory=dict)

    @property
    def clean(self) -> str:
        """The grip to take; who does not know takes one that was seen."""
        other = {"q": "p", "p": "q"}.get(self.oily)
        return other or next(iter(sorted(self.seen)), "grip p")[-1]


def gather_handover(prompt: str) -> HandoverNotes:
    """The latest word on each fact."""
    notes = HandoverNotes()
    for line in lines(prompt):
        if line.agent is not None and line.kind == "observation":
            state = gripper_state(line.text)
            if state is not None:
                notes.states[line.agent] = state
                if line.agent == 0 and state != "holding":
                    notes.presented = ""
        elif line.agent == 0 and line.kind == "action":
            if line.text.startswith("present("):
                notes.presented = line.text
        elif line.kind == "observation":
            found = sighting(line.text)
            if found is not None:
                notes.seen[found[0]] = found[1]
        elif words := re.fullmatch(r"place (\w) is at (-?\d+) (-?\d+) (-?\d+)", line.text):
            notes.places[words[1]] = (int(words[2]), int(words[3]), int(words[4]))
        elif words := re.fullmatch(r"hand the hammer over at place (\w)", line.text):
            notes.goal = words[1]
        elif words := re.fullmatch(r"(?:grip \w is clean again and )?grip (\w) is oily", line.text):
            notes.oily = words[1]
    return notes


def read_handover(prompt: str, layout: Place, usual: Sequence[int]) -> Plan:
    """The clean grip and the tail where last seen, the place the goal names, the arms' own states."""
    notes = gather_handover(prompt)
    grip = notes.seen.get(f"grip {notes.clean}", layout)
    place = notes.places.get(notes.goal, usual)
    # A hammer that is held out elsewhere must be brought to the place first.
    tail = notes.seen.get("tail") if notes.presented == f"{present_at(place)} done" else None
    return handover_plan(grip, place, notes.states.get(0, "open"), tail, notes.states.get(1, "open"))
