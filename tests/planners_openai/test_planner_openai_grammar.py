"""The plan language in a server's notation: it allows the plans of a world, and nothing else."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brace.plan import Arg, Plan, Skill, SkillCall, SkillSet, parse
from brace.planners.endpoint.answers import LinesOfObject, outside
from brace.planners.plan_grammar import gbnf, json_schema

SKILLS = (
    Skill("goto", (Arg("room", "name"),)),
    Skill("put", (Arg("object", "name"), Arg("room", "name"))),
    Skill("say", (Arg("word", "name"),)),
    Skill("layer", (Arg("n", "choice", ("1", "low-er")),)),
    Skill("reach", (Arg("x", "number"), Arg("y", "number"))),
    Skill("wait"),
)
NAMES = {"room": ("red room", "a+b", "r.1"), "object": ("ball", 'the "key"')}
ONE, THREE = SkillSet(SKILLS), SkillSet(SKILLS, agents=3)

NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,5})(\.[0-9]{1,4})?", fullmatch=True)
WORDS = st.from_regex(r"[a-z0-9_-]{1,8}( [a-z0-9_-]{1,8}){0,2}", fullmatch=True)


def argument(arg: Arg) -> st.SearchStrategy[str]:
    if arg.kind == "number":
        return NUMBERS
    allowed = arg.choices or NAMES.get(arg.name, ())
    return st.sampled_from(allowed) if allowed else WORDS


def call_of(skill: Skill) -> st.SearchStrategy[SkillCall]:
    return st.tuples(*map(argument, skill.args)).map(lambda args: SkillCall(skill.name, args))


LINES = st.lists(st.sampled_from(SKILLS).flatmap(call_of), min_size=1, max_size=8).map(tuple)
TEAM_PLANS = st.dictionaries(st.integers(0, 2), LINES, min_size=1).map(lambda d: Plan(tuple(d.items())))


def pattern(skills: SkillSet, line: str) -> re.Pattern[str]:
    return re.compile(json_schema(skills, NAMES)["properties"][line]["pattern"])


@given(LINES)
def test_every_plan_of_the_world_is_allowed(line: tuple[SkillCall, ...]) -> None:
    text = "; ".join(map(str, line))
    assert pattern(ONE, "plan").fullmatch(text)
    assert pattern(THREE, "2").fullmatch(text)
    assert outside(text, ONE, NAMES) == ""


@given(st.from_regex(pattern(ONE, "plan"), fullmatch=True))
def test_whatever_is_allowed_is_a_plan(text: str) -> None:
    assert len(parse(text, ONE)) <= 8
    assert outside(text, ONE, NAMES) == ""


@pytest.mark.parametrize(
    "text",
    [
        "", "Sure!", "goto(red room", "goto(ball)", "goto()", "fly(red room)", "layer(3)", "reach(1)",
        "reach(1, two)", "wait(); ", "put(red room, ball)", "; ".join(["wait()"] * 9), "0: wait()",
    ],
)  # fmt: skip
def test_nothing_else_is(text: str) -> None:
    assert pattern(ONE, "plan").fullmatch(text) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Sure! goto(red room)", "line 1, column 1: unknown skill 'sure'"),
        ("goto(green room)", "'green room' is no room of this world"),
        ("put(ball, hall)", "'hall' is no room of this world"),
        ("goto(red room)\nwait()", "line 2"),
    ],
)
def test_an_answer_outside_says_why(text: str, problem: str) -> None:
    assert problem in outside(text, ONE, NAMES)


def test_of_a_cut_answer_only_whole_skills_are_judged() -> None:
    assert outside("goto(red room); got", ONE, NAMES, cut=True) == ""
    assert outside("got", ONE, NAMES, cut=True) == ""
    assert outside("fly(); got", ONE, NAMES, cut=True)
    assert outside("0: wait()\n1: wait(); goto(re", THREE, NAMES, cut=True) == ""


def test_gbnf_of_one_agent() -> None:
    skills = SkillSet([SKILLS[0], SKILLS[4], SKILLS[5]])
    number = '("-"? ("0" | [1-9] [0-9]{0,5}) ("." [0-9]{1,4})?)'
    assert gbnf(skills, {"room": ("hall", 'the "den"')}).splitlines() == [
        "root ::= line",
        'line ::= call ("; " call){0,7}',
        r'call ::= "goto(" ("hall"|"the \"den\"") ")" | '
        f'"reach(" {number} ", " {number} ")" | "wait("  ")"',
    ]


def test_gbnf_of_several_agents_has_their_lines_in_order_and_at_least_one() -> None:
    rules = gbnf(SkillSet([SKILLS[5]], agents=3), {}).splitlines()
    assert rules[0] == "root ::= line | agent0"
    assert set(rules[3:]) == {
        r'agent0 ::= "0: " line ("\n" agent1)? | agent1',
        r'agent1 ::= "1: " line ("\n" agent2)? | agent2',
        'agent2 ::= "2: " line',
    }


def unwrapped(text: str, size: int, *, several: bool) -> str:
    lines = LinesOfObject(several)
    return "".join(lines.feed(text[index : index + size]) for index in range(0, len(text), size))


@given(TEAM_PLANS, st.integers(1, 9), st.booleans(), st.sampled_from([None, 1]))
def test_an_object_of_lines_becomes_the_plan_s_text_however_it_is_split(
    plan: Plan, size: int, escaped: bool, indent: int | None
) -> None:
    lines = {str(agent): "; ".join(map(str, plan.of(agent))) for agent in range(3)}
    text = unwrapped(json.dumps(lines, ensure_ascii=escaped, indent=indent), size, several=True)
    assert parse(text, THREE) == plan


@given(st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF)), st.integers(1, 9))
def test_every_escape_is_undone(line: str, size: int) -> None:
    assert unwrapped(json.dumps({"plan": line}), size, several=False) == line


@pytest.mark.parametrize("text", [r'{"plan": "\ud83e\udd16\uZZZZ"}', r'{"plan": "\q"', "{,:}", '{"a": 1'])
def test_no_answer_breaks_it_or_cannot_be_written_down(text: str) -> None:
    unwrapped(text, 1, several=True).encode()


def test_a_cut_object_gives_what_there_is_of_the_plan() -> None:
    assert unwrapped('{"0": "wait(); goto(re', 4, several=True) == "0: wait(); goto(re"


def test_an_answer_that_is_no_object_passes_unchanged() -> None:
    assert unwrapped("  goto(hall)", 3, several=False) == "goto(hall)"
