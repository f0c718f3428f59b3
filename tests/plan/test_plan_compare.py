"""Comparing plans: only what an agent would do differently is a change."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from brace.errors import UnknownNameError
from brace.plan import Arg, Plan, Skill, SkillCall, SkillSet, is_change, normal_form, parse


def skills_with(resolution: float | None) -> SkillSet:
    return SkillSet(
        [
            Skill("move", (Arg("x", "number", resolution=resolution),)),
            Skill("goto", (Arg("place", "name"),)),
            Skill("set", (Arg("speed", "choice", ("1.0", "2.0")),)),
            Skill("wait"),
        ],
        agents=3,
    )


def move(x: str) -> Plan:
    return Plan(((0, (SkillCall("move", (x,)),)),))


numbers = st.floats(allow_nan=False, allow_infinity=False).map(repr)
resolutions = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
calls = st.one_of(
    st.builds(lambda x: SkillCall("move", (x,)), numbers),
    st.builds(lambda place: SkillCall("goto", (place,)), st.sampled_from(["red ball", "1.0", "-0", "007"])),
    st.just(SkillCall("set", ("1.0",))),
    st.just(SkillCall("wait")),
)
plans = st.dictionaries(
    st.integers(0, 2), st.lists(calls, min_size=1, max_size=4).map(tuple), min_size=1
).map(lambda steps: Plan(tuple(steps.items())))


@settings(deadline=None)
@given(plans, st.one_of(st.none(), resolutions.map(skills_with), st.just(skills_with(0.05))))
def test_the_normal_form_is_a_plan_in_normal_form(plan: Plan, skills: SkillSet | None) -> None:
    text = normal_form(plan, skills)
    assert normal_form(parse(text, skills), skills) == text


@settings(deadline=None)
@given(numbers, st.floats(1e-6, 1e6))
@example("1.7976931348623157e308", 1e308)
@example("0.15", 0.1)
def test_rounding_moves_a_number_by_half_a_resolution_at_most(x: str, resolution: float) -> None:
    rounded = float(normal_form(move(x), skills_with(resolution)).removeprefix("move(").removesuffix(")"))
    assert abs(rounded - float(x)) <= resolution / 2 + math.ulp(float(x))


@pytest.mark.parametrize(
    ("number", "plain", "rounded"),
    [
        ("1.0", "1", "1"),
        ("+1.", "1", "1"),
        ("-0", "0", "0"),
        ("-0.004", "-0.004", "0"),
        ("0.30000000000000004", "0.30000000000000004", "0.3"),
        ("1.2301", "1.2301", "1.23"),
        ("1.229", "1.229", "1.23"),
        ("15e-1", "1.5", "1.5"),
        ("1e3", "1000", "1000"),
        ("1e300", "1e+300", "1e+300"),
        ("1e-400", "0", "0"),
    ],
)
def test_numbers_are_written_one_way(number: str, plain: str, rounded: str) -> None:
    assert normal_form(move(number)) == f"move({plain})"
    assert normal_form(move(number), skills_with(None)) == f"move({plain})"
    assert normal_form(move(number), skills_with(0.01)) == f"move({rounded})"


def test_multiples_are_decimal_not_binary() -> None:
    assert normal_form(move("0.31"), skills_with(0.1)) == "move(0.3)"
    assert normal_form(move("0.15"), skills_with(0.05)) == "move(0.15)"


def test_rounding_is_stable_where_floats_are_as_coarse_as_the_resolution() -> None:
    skills = skills_with(0.012)
    once = normal_form(move("70079936118267.28"), skills)
    assert normal_form(parse(once, skills), skills) == once


def test_a_multiple_beyond_the_largest_float_is_not_rounded_to() -> None:
    assert normal_form(move("1.7e308"), skills_with(1e308)) == "move(1.7e+308)"


def test_only_number_arguments_are_numbers_where_the_skills_are_known() -> None:
    plan = parse("0: goto(007); set(1.0)\n2: move(007)")
    assert normal_form(plan, skills_with(None)) == "0: goto(007); set(1.0)\n2: move(7)"
    assert normal_form(plan) == "0: goto(7); set(1)\n2: move(7)"


@pytest.mark.parametrize("word", ["nan", "inf", "1e999", "1_0", "1 0", "0x1", "red ball"])
def test_words_are_not_taken_for_numbers(word: str) -> None:
    assert normal_form(move(word)) == f"move({word})"


def test_a_plan_of_other_skills_is_not_compared_silently() -> None:
    with pytest.raises(UnknownNameError, match="unknown skill 'fly'"):
        normal_form(parse("fly(a)"), skills_with(None))


@pytest.mark.parametrize(
    ("new", "old", "changed"),
    [
        ("GOTO( Red  ball );", "goto(red ball)", False),
        ("0: move(1.0)", "move(1)", False),
        ("move(1.001)", "move(1)", False),
        ("move(1.1)", "move(1)", True),
        ("1: wait()\n0: wait()", "0: wait()\n1: wait()", False),
        ("1: wait()", "wait()", True),
        ("wait(); wait()", "wait()", True),
        ("goto(a); wait()", "wait(); goto(a)", True),
        ("goto(1)", "goto(1.0)", True),
    ],
)
def test_what_is_a_change(new: str, old: str, changed: bool) -> None:
    skills = skills_with(0.01)
    assert is_change(parse(new, skills), parse(old, skills), skills) is changed
    assert is_change(parse(old, skills), parse(new, skills), skills) is changed


@settings(deadline=None)
@given(plans, st.integers(0, 4))
def test_repeating_the_unexecuted_rest_is_no_change(plan: Plan, done: int) -> None:
    rest = plan.rest(dict.fromkeys(plan.agents, done))
    assert not is_change(rest, rest)
    assert is_change(plan, rest) == (rest != plan)


def test_the_plan_keeps_the_exact_numbers() -> None:
    assert str(parse("move(1.2301)", skills_with(0.01))) == "move(1.2301)"


def test_any_plan_after_an_empty_rest_is_a_change() -> None:
    assert is_change(parse("wait()"), Plan())
    assert not is_change(Plan(), Plan())
