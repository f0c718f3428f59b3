"""Declaring skills: bad declarations are refused at once, good ones can be told to a planner."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from brace.errors import ConfigError, UnknownNameError
from brace.plan import Arg, Skill, SkillSet, parse

GOTO = Skill("goto", (Arg("place", "name"),), doc="walk to a place")
TURN = Skill("turn", (Arg("side", "choice", ("left", "right")), Arg("angle", "number")))
WAIT = Skill("wait")


def test_signature() -> None:
    assert [skill.signature() for skill in (GOTO, TURN, WAIT)] == [
        "goto(place)",
        "turn(side, angle)",
        "wait()",
    ]


def test_a_set_gives_its_skills_by_name_and_in_order() -> None:
    skills = SkillSet(iter([WAIT, GOTO]), agents=3)
    assert (skills.names, list(skills), len(skills), skills.agents) == (("wait", "goto"), [WAIT, GOTO], 2, 3)
    assert skills.get("goto") is GOTO
    with pytest.raises(UnknownNameError, match="unknown skill 'gotoo'; did you mean 'goto'"):
        skills.get("gotoo")


def test_a_set_cannot_be_changed() -> None:
    skills = SkillSet([WAIT])
    with pytest.raises(AttributeError):
        skills.agents = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        skills.extra = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: SkillSet([]), "at least one skill"),
        (lambda: SkillSet([WAIT], agents=0), "at least one agent"),
        (lambda: SkillSet([WAIT, GOTO, WAIT]), "skill 'wait' is given twice"),
        (lambda: Skill("Go to"), "skill name 'Go to'"),
        (lambda: Skill("1st"), "skill name '1st'"),
        (lambda: Skill("go", (Arg("x", "name"), Arg("x", "number"))), "'x' is given twice"),
        (lambda: Arg("a b", "name"), "argument name 'a b'"),
        (lambda: Arg("x", "float"), "kind 'float'"),  # type: ignore[arg-type]
        (lambda: Arg("x", "choice"), "needs choices"),
        (lambda: Arg("x", "name", ("a",)), "needs choices"),
        (lambda: Arg("x", "choice", ("Left",)), "choice 'Left'"),
        (lambda: Arg("x", "choice", ("a", "b;c")), "choice 'b;c'"),
        (lambda: Arg("x", "choice", ("",)), "choice ''"),
        (lambda: Arg("x", "name", resolution=0.1), "only a number"),
        (lambda: Arg("x", "number", resolution=0.0), "resolution 0.0"),
        (lambda: Arg("x", "number", resolution=float("nan")), "resolution nan"),
        (lambda: Arg("x", "number", resolution=float("inf")), "resolution inf"),
    ],
)
def test_declarations_that_cannot_work_are_refused(build: Callable[[], object], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        build()
    assert words in str(raised.value)


def test_the_prompt_names_every_skill_and_shows_a_plan_that_parses() -> None:
    skills = SkillSet([GOTO, TURN, WAIT])
    lines = skills.describe().splitlines()
    assert lines[:3] == [
        "goto(place): walk to a place",
        "turn(side, angle): side is left or right; angle is a number",
        "wait()",
    ]
    assert parse(lines[3].partition(": ")[2], skills).of(0)[1].skill == "wait"


def test_the_prompt_for_several_agents_says_how_to_address_them() -> None:
    skills = SkillSet([GOTO, WAIT], agents=2)
    how = skills.describe().splitlines()[-1]
    assert "0 to 1" in how
    assert how.endswith(": 0: goto(place); wait()")
