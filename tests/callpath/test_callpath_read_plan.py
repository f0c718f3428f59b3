"""What an answer's status and text make of each other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brace.callpath.answer import read_plan
from brace.plan import Arg, Skill, SkillSet, parse
from brace.planners import Answer
from brace.planners.base import AnswerStatus

SKILLS = SkillSet(
    [
        Skill("goto", (Arg("place", "name"),)),
        Skill("pickup", (Arg("thing", "name"),)),
        Skill("turn", (Arg("by", "number"),)),
    ],
    agents=2,
)
GOTO = "goto(hall)"

# text → (status, plan) of an answer that was done, and of one that was cut
TABLE: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "": (("empty", ""), ("cut", "")),
    " \n\t": (("empty", ""), ("cut", "")),
    "goto(hall)": (("ok", GOTO), ("partial", GOTO)),
    " GOTO( hall );\n": (("ok", GOTO), ("partial", GOTO)),
    "goto(hall);": (("ok", GOTO), ("partial", GOTO)),
    "goto(hall); pickup(c": (("partial", GOTO), ("partial", GOTO)),
    "goto(hall); pickup(": (("partial", GOTO), ("partial", GOTO)),
    "goto(hall); pickup( \n": (("partial", GOTO), ("partial", GOTO)),
    "goto(hall); pickup": (("partial", GOTO), ("partial", GOTO)),
    "goto(hall); pi": (("partial", GOTO), ("partial", GOTO)),
    "goto(hall); turn(1": (("partial", GOTO), ("partial", GOTO)),
    "goto(hall); turn(-": (("partial", GOTO), ("partial", GOTO)),
    "goto(ha": (("unparsable", ""), ("cut", "")),
    "go": (("unparsable", ""), ("cut", "")),
    "Sure! Here is": (("unparsable", ""), ("cut", "")),
    "goto(hall) and": (("unparsable", ""), ("partial", GOTO)),
    "goto(hall) and then": (("unparsable", ""), ("partial", GOTO)),
    "goto(hall); fly(moon); pickup(cup)": (("unparsable", ""), ("partial", GOTO)),
    "goto(hall); turn(left)": (("unparsable", ""), ("partial", GOTO)),
    "0: goto(hall)\n1: pickup(cup)": (
        ("ok", "0: goto(hall)\n1: pickup(cup)"),
        ("partial", "0: goto(hall)\n1: pickup(cup)"),
    ),
    "0: goto(hall)\n1: pick": (("partial", GOTO), ("partial", GOTO)),
    "0: goto(hall)\n1": (("partial", GOTO), ("partial", GOTO)),
    "0: goto(hall)\n2: goto(hall)": (("unparsable", ""), ("partial", GOTO)),
}


@pytest.mark.parametrize("text", list(TABLE))
@pytest.mark.parametrize("status", ["done", "cut"])
def test_a_text_gives_the_plan_it_holds(text: str, status: AnswerStatus) -> None:
    expected = TABLE[text][status == "cut"]
    found, plan, problem = read_plan(Answer(text, status), SKILLS)
    assert (found, str(plan)) == expected
    assert plan.is_empty == (found not in ("ok", "partial"))
    whole = text.strip() == "" or str(plan) == str(_parsed(text))
    assert (problem == "") == whole


def _parsed(text: str) -> object:
    try:
        return parse(text, SKILLS)
    except Exception as error:  # noqa: BLE001
        return error


@pytest.mark.parametrize("text", list(TABLE))
@pytest.mark.parametrize("status", ["shed", "cancelled", "failed"])
def test_an_answer_nobody_wants_gives_no_plan_whatever_it_holds(text: str, status: AnswerStatus) -> None:
    found, plan, problem = read_plan(Answer(text, status, error="why"), SKILLS)
    assert (found, plan.is_empty, problem) == (status, True, "why")


def test_without_skills_only_the_syntax_is_read() -> None:
    assert read_plan(Answer("fly(moon)", "done"), None)[0] == "ok"
    assert read_plan(Answer("fly(moon", "done"), None)[0] == "unparsable"


plans = st.lists(
    st.sampled_from(["goto(hall)", "pickup(red cup)", "turn(-1.5)", "turn(90)"]), min_size=1, max_size=5
)


@settings(deadline=None, max_examples=300)
@given(calls=plans, data=st.data(), status=st.sampled_from(["done", "cut"]))
def test_wherever_a_plan_is_truncated_its_closed_skills_are_used(
    calls: list[str], data: st.DataObject, status: AnswerStatus
) -> None:
    whole = "; ".join(calls)
    text = whole[: data.draw(st.integers(0, len(whole)))]
    closed = text.count(")")
    found, plan, _ = read_plan(Answer(text, status), SKILLS)
    assert str(plan) == "; ".join(calls[:closed])
    assert (found in ("ok", "partial")) == (closed > 0)
    if status == "cut":
        assert found == ("partial" if closed else "cut")
