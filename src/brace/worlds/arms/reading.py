"""What the readers of prompts share. A reader is a pure function from text to the best plan the text allows.

It looks up the latest line of each sort and makes a small choice. Lines may be missing or cut anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from brace.plan import SkillCall

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
