"""The readers of the three worlds: pure functions from text to the best plan that the text allows.

They look up the latest line of each sort and make a small choice. Lines may be missing or cut anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from brace.plan import Plan, SkillCall
from brace.worlds.arms.surroundings import Sighting

NEAR_MM, NEAR_DEGREES = 8, 6
"""A peg aligned this near to a hole goes in."""
_LINE = re.compile(r"\[(\w+) (\d+)(?: a(\d+))?\] (.*)")
_SIGHTING = re.compile(r"(.+) at (-?\d+) (-?\d+) (-?\d+) (?:yaw|tilt) (-?\d+)")
_STATE = re.compile(r"at (-?\d+) (-?\d+) (-?\d+) gripper (\w+)")


class _Line(NamedTuple):
    kind: str
    agent: int | None
    text: str

    @property
    def sighting(self) -> tuple[str, Sighting] | None:
        """What the camera saw, and where."""
        found = _SIGHTING.fullmatch(self.text)
        if found is None:
            return None
        return found[1], (int(found[2]), int(found[3]), int(found[4]), int(found[5]))

    @property
    def gripper(self) -> str | None:
        """What an arm says of its gripper."""
        found = _STATE.fullmatch(self.text)
        return None if found is None else found[4]


def _lines(prompt: str) -> Iterator[_Line]:
    """The lines that begin as they should; a compressor may have cut their ends."""
    for line in prompt.splitlines():
        found = _LINE.match(line)
        if found is not None:
            yield _Line(found[1], None if found[3] is None else int(found[3]), found[4].strip())


def skill_at(skill: str, place: Sequence[int]) -> SkillCall:
    """Reach for a place, present something there, or align with it."""
    return SkillCall(skill, tuple(str(number) for number in place))


def reach_for(place: Sequence[int]) -> list[SkillCall]:
    """Go there and close."""
    return [skill_at("reach", place), SkillCall("grasp")]


def lift_plan(before: Mapping[int, Sequence[SkillCall]], height: int) -> Plan:
    """What each arm does first, then both together: up."""
    up = (SkillCall("sync"), SkillCall("lift", (str(height),)))
    return Plan(tuple((arm, (*calls, *up)) for arm, calls in before.items()))


@dataclass
class LiftNotes:
    """What matters of all that was said."""

    height: int
    hot: str | None = None
    handles: dict[str, Sighting] = field(default_factory=dict)
    states: dict[int, str] = field(default_factory=dict)


def gather_lift(prompt: str, height: int = 160) -> LiftNotes:
    """The latest word on each fact; the last height said counts."""
    notes = LiftNotes(height)
    for line in _lines(prompt):
        if line.kind == "message":
            if found := re.fullmatch(r"the (\w+) handle is hot", line.text):
                notes.hot = found[1]
            elif found := re.fullmatch(r"lift to (\d+)(?: instead)?", line.text):
                # The world refuses a plan that lifts higher.
                notes.height = min(int(found[1]), 250)
        elif line.kind == "observation" and line.agent is not None:
            if line.gripper is not None:
                notes.states[line.agent] = line.gripper
        elif line.kind == "observation" and (seen := line.sighting):
            notes.handles[seen[0].removesuffix(" handle")] = seen[1]
    return notes


def read_lift(prompt: str, layout: Mapping[int, Sighting], height: int = 160) -> Plan:
    """Arm 1 takes the hot handle, arm 0 the other, each where last seen.

    Who does not know what is hot gives each arm the handle on its side.
    """
    notes = gather_lift(prompt, height)
    handles, hot, colours = notes.handles, notes.hot, ("blue", "green")
    if hot not in colours:
        sides = sorted(handles, key=lambda colour: handles[colour][1])
        hot = sides[-1] if len(sides) == 2 else "blue"
    cold = colours[1 - colours.index(hot)] if hot in colours else ""
    first: dict[int, list[SkillCall]] = {}
    for arm, place in ((0, handles.get(cold, layout[0])), (1, handles.get(hot, layout[1]))):
        state = notes.states.get(arm, "open")
        if state == "holding":
            first[arm] = []
        elif state == "closing":
            first[arm] = [SkillCall("grasp")]
        else:
            first[arm] = reach_for(place)
    return lift_plan(first, notes.height)


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
    present = skill_at("present", place)
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

    seen: dict[str, Sighting] = field(default_factory=dict)
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
    for line in _lines(prompt):
        if line.agent is not None and line.kind == "observation":
            if line.gripper is not None:
                notes.states[line.agent] = line.gripper
                if line.agent == 0 and line.gripper != "holding":
                    notes.presented = ""
        elif line.agent == 0 and line.kind == "action":
            if line.text.startswith("present("):
                notes.presented = line.text
        elif line.kind == "observation":
            if found := line.sighting:
                notes.seen[found[0]] = found[1]
        elif words := re.fullmatch(r"place (\w) is at (-?\d+) (-?\d+) (-?\d+)", line.text):
            notes.places[words[1]] = (int(words[2]), int(words[3]), int(words[4]))
        elif words := re.fullmatch(r"hand the hammer over at place (\w)", line.text):
            notes.goal = words[1]
        elif words := re.fullmatch(r"(?:grip \w is clean again and )?grip (\w) is oily", line.text):
            notes.oily = words[1]
    return notes


def read_handover(prompt: str, layout: Sighting, usual: Sequence[int]) -> Plan:
    """The clean grip and the tail where last seen, the place the goal names, the arms' own states."""
    notes = gather_handover(prompt)
    grip = notes.seen.get(f"grip {notes.clean}", layout)
    place = notes.places.get(notes.goal, usual)
    # A hammer that is held out elsewhere must be brought to the place first.
    tail = notes.seen.get("tail") if notes.presented == f"{skill_at('present', place)} done" else None
    return handover_plan(grip, place, notes.states.get(0, "open"), tail, notes.states.get(1, "open"))


def peg_plan(at: Sequence[int] | None, depth: int, *, board_there: bool) -> Plan:
    """Both arms meet at a place and arm 0 inserts; with the board there, only arm 0 aligns (or not: None)."""
    sync, wait, insert = SkillCall("sync"), SkillCall("wait"), SkillCall("insert", (str(depth),))
    align = () if at is None else (skill_at("align", at),)
    if board_there:
        return Plan(((0, (*align, insert)), (1, (wait,))))
    return Plan(((0, (*align, sync, insert)), (1, (*align, sync, wait))))


@dataclass
class PegNotes:
    """What matters of all that was said."""

    depth: int
    places: dict[str, Sighting] = field(default_factory=dict)
    occupied: set[str] = field(default_factory=set)
    hole: Sighting | None = None
    board: str = ""
    peg: str = ""
    """What the arms said of their last `align`, unless something failed since."""

    @property
    def free(self) -> list[Sighting]:
        """Where nobody is, in order of name."""
        return [place for name, place in sorted(self.places.items()) if name not in self.occupied]


def gather_peg(prompt: str, depth: int = 90) -> PegNotes:
    """The latest word on each fact."""
    notes = PegNotes(depth)
    for line in _lines(prompt):
        found = line.sighting if line.kind in ("observation", "task") else None
        if found is not None and found[0].startswith("meeting place "):
            notes.places[found[0].removeprefix("meeting place ").removesuffix(" is")] = found[1]
        elif found is not None and found[0] == "hole":
            notes.hole = found[1]
        elif line.agent == 1 and line.text.startswith("align("):
            notes.board = line.text
        elif line.agent == 0 and line.text.startswith("align("):
            notes.peg = line.text
        elif line.agent is not None and line.kind == "failure":
            notes.board, notes.peg = ("", notes.peg) if line.agent == 1 else (notes.board, "")
        elif line.kind == "message":
            for name, state in re.findall(r"meeting place (m\d) is (occupied|free again)", line.text):
                (notes.occupied.add if state == "occupied" else notes.occupied.discard)(name)
            if words := re.fullmatch(r"insert to (\d+)(?: instead)?", line.text):
                # The world refuses a plan that inserts deeper.
                notes.depth = min(int(words[1]), 120)
    return notes


def read_peg(prompt: str, usual: Sighting, depth: int = 90) -> Plan:
    """Meet at the first free place; once the board is there, go for the hole where it was seen last."""
    notes = gather_peg(prompt, depth)
    free, hole = notes.free, notes.hole
    if hole is not None and notes.board in {f"{skill_at('align', place)} done" for place in free}:
        return peg_plan(None if _aligned(notes.peg, hole) else hole, notes.depth, board_there=True)
    return peg_plan(free[0] if free else usual, notes.depth, board_there=False)


def _aligned(done: str, hole: Sighting) -> bool:
    """Whether arm 0's last `align(…) done` was for where the hole is now."""
    found = re.fullmatch(r"align\((-?\d+), (-?\d+), (-?\d+), (-?\d+)\) done", done)
    if found is None:
        return False
    off = [abs(int(found[index + 1]) - hole[index]) for index in range(4)]
    return max(off[:3]) <= NEAR_MM and off[3] <= NEAR_DEGREES
