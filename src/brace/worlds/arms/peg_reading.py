"""The reader of `peg-v1`: which meeting place is free, how deep, and where the hole was seen last."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from brace.plan import Plan, SkillCall
from brace.worlds.arms.reading import Place, lines, sighting

NEAR_MM, NEAR_DEGREES = 8, 6
"""A peg aligned this near to a hole goes in."""


def align_at(place: Sequence[int]) -> SkillCall:
    """Bring peg or hole there."""
    return SkillCall("align", tuple(str(number) for number in place))


def peg_plan(at: Sequence[int] | None, depth: int, *, board_there: bool) -> Plan:
    """Both arms meet at a place and arm 0 inserts; with the board there, only arm 0 aligns (or not: None)."""
    sync, wait, insert = SkillCall("sync"), SkillCall("wait"), SkillCall("insert", (str(depth),))
    if board_there:
        first = (align_at(at),) if at is not None else ()
        return Plan(((0, (*first, insert)), (1, (wait,))))
    meet = () if at is None else (align_at(at),)
    return Plan(((0, (*meet, sync, insert)), (1, (*meet, sync, wait))))


@dataclass
class PegNotes:
    """What matters of all that was said."""

    depth: int
    places: dict[str, Place] = field(default_factory=dict)
    occupied: set[str] = field(default_factory=set)
    hole: Place | None = None
    board: str = ""
    peg: str = ""
    """What the arms said of their last `align`, unless something failed since."""

    @property
    def free(self) -> list[Place]:
        """Where nobody is, in order of name."""
        return [place for name, place in sorted(self.places.items()) if name not in self.occupied]


def gather_peg(prompt: str, depth: int = 90) -> PegNotes:
    """The latest word on each fact."""
    notes = PegNotes(depth)
    for line in lines(prompt):
        found = sighting(line.text) if line.kind in ("observation", "task") else None
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
                notes.depth = min(int(words[1]), 120)
    return notes


def read_peg(prompt: str, usual: Place, depth: int = 90) -> Plan:
    """Meet at the first free place; once the board is there, go for the hole where it was seen last."""
    notes = gather_peg(prompt, depth)
    free, hole = notes.free, notes.hole
    if hole is not None and notes.board in {f"{align_at(place)} done" for place in free}:
        return peg_plan(None if _aligned(notes.peg, hole) else hole, notes.depth, board_there=True)
    return peg_plan(free[0] if free else usual, notes.depth, board_there=False)


def _aligned(done: str, hole: Place) -> bool:
    """Whether arm 0's last `align(…) done` was for where the hole is now."""
    found = re.fullmatch(r"align\((-?\d+), (-?\d+), (-?\d+), (-?\d+)\) done", done)
    if found is None:
        return False
    off = [abs(int(found[index + 1]) - hole[index]) for index in range(4)]
    return max(off[:3]) <= NEAR_MM and off[3] <= NEAR_DEGREES
