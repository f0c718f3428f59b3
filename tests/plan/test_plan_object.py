"""The plan as a value: one form for equal plans, and what is left of it while it is executed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brace.plan import Plan, SkillCall, parse

call_lists = st.lists(st.builds(SkillCall, st.sampled_from(["wait", "look", "jump"])), max_size=4).map(tuple)
plans = st.dictionaries(st.integers(0, 12), call_lists, max_size=4).map(lambda d: Plan(tuple(d.items())))


def test_the_agent_index_is_left_out_only_for_a_lone_agent_0() -> None:
    wait = (SkillCall("wait"),)
    assert str(Plan(((0, wait),))) == "wait()"
    assert str(Plan(((1, wait),))) == "1: wait()"
    assert str(Plan(((1, wait), (0, wait)))) == "0: wait()\n1: wait()"
    assert str(Plan()) == ""


@settings(deadline=None)
@given(plans)
def test_a_plan_has_no_idle_agents_and_one_order(plan: Plan) -> None:
    assert all(plan.of(agent) for agent in plan.agents)
    assert list(plan.agents) == sorted(plan.agents)
    assert len(plan) == sum(len(plan.of(agent)) for agent in range(13))
    assert plan.is_empty == (len(plan) == 0)
    assert Plan(tuple(reversed(plan.steps))) == plan
    assert Plan((*plan.steps, (13, ()))) == plan


@settings(deadline=None)
@given(plans, st.dictionaries(st.integers(0, 14), st.integers(0, 6)))
def test_rest_drops_the_executed_calls_of_each_agent(plan: Plan, done: dict[int, int]) -> None:
    rest = plan.rest(done)
    for agent in range(15):
        assert rest.of(agent) == plan.of(agent)[done.get(agent, 0) :]


def test_rest_of_example() -> None:
    plan = parse("0: goto(a); wait(); goto(b)\n1: wait()")
    assert str(plan.rest({0: 1, 1: 1})) == "wait(); goto(b)"
    assert plan.rest({}) == plan
    assert plan.rest({0: 3, 1: 1}) == Plan()
    with pytest.raises(ValueError, match="negative"):
        plan.rest({0: -1})


@pytest.mark.parametrize(
    ("name", "args"), [("go to", ()), ("", ()), ("1a", ()), ("go", ("",)), ("go", ("a,b",))]
)
def test_calls_that_could_not_be_read_back_are_refused(name: str, args: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"is not a skill name|cannot be an argument"):
        SkillCall(name, args)


@pytest.mark.parametrize("agents", [(0, 0), (-1,), (10**9,)])
def test_agents_that_could_not_be_read_back_are_refused(agents: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="agent"):
        Plan(tuple((agent, (SkillCall("wait"),)) for agent in agents))
