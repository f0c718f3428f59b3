"""Reading plans: what is written is what is read, and what is not a plan says where and why."""

from __future__ import annotations

import pickle
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brace.plan import Arg, Plan, PlanSyntaxError, Skill, SkillCall, SkillSet, parse, parse_partial

SKILLS = SkillSet(
    [
        Skill("goto", (Arg("place", "name"),)),
        Skill("move", (Arg("x", "number"), Arg("y", "number"))),
        Skill("turn", (Arg("side", "choice", ("left", "right")),)),
        Skill("wait"),
    ],
    agents=2,
)

skill_names = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
arguments = st.text(st.characters(exclude_characters="(),;:\n"), min_size=1).filter(str.strip)
skill_calls = st.builds(SkillCall, skill_names, st.lists(arguments, max_size=3).map(tuple))
call_lists = st.lists(skill_calls, max_size=4).map(tuple)
plans = st.dictionaries(st.integers(0, 12), call_lists, max_size=4).map(lambda d: Plan(tuple(d.items())))
written_plans = plans.filter(lambda plan: not plan.is_empty)
# Texts that are nearly plans reach deeper into the parser than arbitrary ones.
near_plans = st.lists(
    st.sampled_from([*"(),;: \n01", "goto", "move", "turn", "wait", "left", "-1.5", "nan", "x", "é"])
).map("".join)


def is_prefix(part: Plan, whole: Plan) -> bool:
    return all(whole.of(agent)[: len(calls)] == calls for agent, calls in part.steps)


@settings(deadline=None)
@given(written_plans)
def test_a_plan_is_read_as_it_was_written(plan: Plan) -> None:
    assert parse(str(plan)) == plan
    assert parse_partial(str(plan)) == (plan, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("goto(red ball)", {0: ["goto(red ball)"]}),
        ("goto(red ball); wait()", {0: ["goto(red ball)", "wait()"]}),
        ("goto(red ball);", {0: ["goto(red ball)"]}),
        ("0: wait()", {0: ["wait()"]}),
        ("1: wait()", {1: ["wait()"]}),
        ("1: wait()\n0: goto(a); move(1, -2.5e1)", {0: ["goto(a)", "move(1, -2.5e1)"], 1: ["wait()"]}),
        ("\n\n 0 : wait ( ) ; \r\n\n\t1:turn( left )\n ", {0: ["wait()"], 1: ["turn(left)"]}),
        ("GoTo(Red\t  BALL)", {0: ["goto(red ball)"]}),
        ("move(.5, +1.)", {0: ["move(.5, +1.)"]}),
    ],
)
def test_valid_texts(text: str, expected: dict[int, list[str]]) -> None:
    plan = parse(text, SKILLS)
    assert {agent: [str(call) for call in calls] for agent, calls in plan.steps} == expected


@settings(deadline=None)
@given(written_plans, st.data())
def test_spacing_and_case_make_no_difference(plan: Plan, data: st.DataObject) -> None:
    space = st.sampled_from(["", " ", "\t ", "\r"])
    text = ""
    for char in str(plan):
        if char in "(),;:":
            text += data.draw(space) + char + data.draw(space)
        else:
            # Not every character has an upper case that leads back to it (ß, ς).
            text += char.upper() if char.isascii() and data.draw(st.booleans()) else char
    assert parse(f" \n{text}\n ") == plan


@settings(deadline=None)
@given(written_plans, st.data())
def test_a_truncated_plan_gives_its_complete_calls(plan: Plan, data: st.DataObject) -> None:
    text = str(plan)
    before = Plan()
    for end in sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20))):
        part, error = parse_partial(text[:end])
        assert is_prefix(before, part)
        assert is_prefix(part, plan)
        assert len(part) == text[:end].count(")")
        assert error is None or error.offset <= end
        before = part


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("goto(a); goto(b", "goto(a)"),
        ("goto(a); gotoo(b); wait()", "goto(a)"),
        ("goto(a) and then wait()", "goto(a)"),
        ("0: wait(); goto(a)\n1: wait(); move(1, x); wait()", "0: wait(); goto(a)\n1: wait()"),
        ("0: wait()\n0: goto(a)", "wait()"),
        ("wait()\n1: goto(a)", "wait()"),
        ("1: wait()\ngoto(a)", "1: wait()"),
        ("turn(lef", ""),
        ("Sure! goto(a)", ""),
        ("", ""),
    ],
)
def test_a_broken_plan_gives_what_precedes_the_error(text: str, kept: str) -> None:
    plan, error = parse_partial(text, SKILLS)
    assert str(plan) == kept
    assert error is not None
    with pytest.raises(PlanSyntaxError) as raised:
        parse(text, SKILLS)
    assert str(raised.value) == str(error)


@pytest.mark.parametrize(
    ("text", "line", "column", "expected", "words"),
    [
        ("", 1, 1, ("a skill",), "expected a skill, found end of text"),
        (" \n  ", 2, 3, ("a skill",), "found end of text"),
        (
            "goto(a); wait(); gotoo(b)",
            1,
            18,
            SKILLS.names,
            "unknown skill 'gotoo'; did you mean 'goto'? known:",
        ),
        ("Sure! Here is the plan: goto(x)", 1, 1, SKILLS.names, "unknown skill 'sure'"),
        ("- goto(x)", 1, 1, ("a skill",), "found '-'"),
        ("goto", 1, 5, ("'('",), "expected '(', found end of text"),
        ("goto red", 1, 6, ("'('",), "found 'red'"),
        ("goto(x", 1, 7, ("')'",), "expected ')', found end of text"),
        ("goto(x; wait()", 1, 7, ("')'",), "found ';'"),
        ("0: goto(x\n1: wait()", 1, 10, ("')'",), "found end of line"),
        ("goto(x) wait()", 1, 9, ("';'", "end of line"), "expected ';' or end of line, found 'wait'"),
        ("goto(x). Done", 1, 8, ("';'", "end of line"), "found '.'"),
        ("goto(x);; wait()", 1, 9, ("a skill",), "found ';'"),
        ("goto()", 1, 6, ("an argument",), "found ')'; goto(place) takes 1 argument"),
        ("goto(a, b)", 1, 7, ("')'",), "found ','; goto(place) takes 1 argument"),
        ("wait(a)", 1, 6, ("')'",), "found 'a'; wait() takes no arguments"),
        ("move(1)", 1, 7, ("','",), "found ')'; move(x, y) takes 2 arguments"),
        ("move(1, )", 1, 9, ("an argument",), "found ')'"),
        ("move(1,  up)", 1, 10, ("a number",), "expected a number for y, found 'up'"),
        ("move(nan, 1)", 1, 6, ("a number",), "found 'nan'"),
        ("move(1, -inf)", 1, 9, ("a number",), "found '-inf'"),
        ("move(1, 1e999)", 1, 9, ("a number",), "found '1e999'"),
        ("move(1_0, 1)", 1, 6, ("a number",), "found '1_0'"),
        ("move(1, ٣)", 1, 9, ("a number",), "expected a number"),
        ("turn(lft)", 1, 6, ("left", "right"), "unknown side 'lft'; did you mean 'left'? known: left, right"),
        ("0: wait()\n 2: wait()", 2, 2, ("0 to 1",), "no agent 2; expected 0 to 1"),
        ("1. wait()", 1, 2, ("':'",), "expected ':', found '.'"),
        ("0:", 1, 3, ("a skill",), "found end of text"),
        ("0: wait()\n\n0: goto(a)", 3, 1, ("another agent",), "agent 0 has a line already"),
        ("0: wait()\ngoto(a)", 2, 1, ("an agent index",), "found 'goto'"),
        ("wait()\ngoto(a)", 2, 1, ("end of text",), "found 'goto'"),
        ("wait()\n1: goto(a)", 2, 1, ("end of text",), "found '1'"),
        ("-1: wait()", 1, 1, ("a skill",), "found '-'"),
        ("```\nwait()\n```", 1, 1, ("a skill",), "found '`'"),
    ],
)
def test_errors_say_where_and_what(
    text: str, line: int, column: int, expected: tuple[str, ...], words: str
) -> None:
    with pytest.raises(PlanSyntaxError) as raised:
        parse(text, SKILLS)
    error = raised.value
    assert (error.line, error.column, error.expected) == (line, column, expected)
    before = text[: error.offset].split("\n")
    assert (len(before), len(before[-1])) == (line, column - 1)
    assert str(error).startswith(f"line {line}, column {column}: ")
    assert words in str(error)


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("fly(a b", 8, "expected ')' or ',', found end of text"),
        ("fly(a: b)", 6, "expected ')' or ','"),
        ("fly(, a)", 5, "expected an argument, found ','"),
        ("fly(a,)", 7, "expected an argument, found ')'"),
        ("Sure! Here is the plan: fly(a)", 5, "expected '(', found '!'"),
        ("1234567890: fly()", 1, "no agent 1234567890"),
        ("1" * 5000 + ": fly()", 1, "no agent 1111"),
    ],
)
def test_without_skills_the_syntax_is_still_checked(text: str, column: int, words: str) -> None:
    with pytest.raises(PlanSyntaxError) as raised:
        parse(text)
    assert raised.value.column == column
    assert words in str(raised.value)


def test_without_skills_names_arguments_and_agents_are_free() -> None:
    text = "0: fly(up, nan); fly()\n99: goto(a, b)"
    assert str(parse(text)) == text
    with pytest.raises(PlanSyntaxError, match="unknown skill 'fly'"):
        parse(text, SKILLS)


def test_one_agent_needs_no_index_and_has_no_second() -> None:
    alone = SkillSet([Skill("wait")])
    assert parse("0: wait()", alone) == parse("wait()", alone)
    with pytest.raises(PlanSyntaxError, match=r"no agent 1; expected 0$"):
        parse("1: wait()", alone)


@settings(deadline=None)
@given(st.one_of(st.text(), near_plans), st.sampled_from([None, SKILLS]))
def test_any_text_is_a_plan_or_a_syntax_error(text: str, skills: SkillSet | None) -> None:
    plan, error = parse_partial(text, skills)
    if error is None:
        assert parse(text, skills) == plan
        assert parse(str(plan), skills) == plan
    else:
        with pytest.raises(PlanSyntaxError):
            parse(text, skills)
        assert 0 <= error.offset <= len(text)
        assert error.expected


@pytest.mark.parametrize("skills", [None, SKILLS])
@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "1",
        " ",
        "\n",
        "(",
        "goto(",
        "goto(a);",
        "goto(a)\n",
        "move(1",
        "move(.1",
        "0:",
        "a,",
        "\x00é",
        "x\n",
    ],
)
@pytest.mark.parametrize("before", ["", "goto(", "move(", "wait() "])
def test_a_megabyte_of_garbage_is_rejected_quickly(before: str, unit: str, skills: SkillSet | None) -> None:
    text = before + unit * (1_000_000 // len(unit)) + "!"
    begin = time.process_time()
    _, error = parse_partial(text, skills)
    # Far above linear time here, and far below quadratic.
    assert time.process_time() - begin < 5
    assert error is not None
    assert len(str(error)) < 300


def test_a_long_valid_plan_is_read_in_linear_time() -> None:
    text = "; ".join(["move(0.123456789, 2)"] * 40_000)
    begin = time.process_time()
    assert len(parse(text, SKILLS)) == 40_000
    assert time.process_time() - begin < 5


def test_syntax_errors_survive_a_process_boundary() -> None:
    _, error = parse_partial("goto(", SKILLS)
    assert error is not None
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(copy), copy.offset, copy.expected) == (str(error), error.offset, error.expected)
