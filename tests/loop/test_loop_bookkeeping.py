"""What became of plans is told to every planner, by one function, in every loop."""

from __future__ import annotations

import re
from typing import Any

import pytest

from brace import Agent
from brace.callpath import CallPath, Fit, Mode
from brace.callpath.compress import NoCompression
from brace.context import plan_template
from brace.controller import Controller, ControllerConfig, FixedPolicy
from brace.controller.signals import Budget
from brace.loop.clocks import ModelledClock
from brace.loop.config import LoopConfig
from brace.loop.core import LoopCore, NoLedger, tell_plan
from brace.loop.episode import EpisodeLoop
from brace.plan import Arg, Plan, Skill, SkillSet, parse
from brace.planners import FunctionPlanner, PlannerPool
from brace.worlds import World
from brace.worlds.bridges import Ended, GymWorld
from fake_world import SKILLS, FakeLine


def prompts_of(world: World, *answers: str, period: int = 2, steps: int = 12) -> list[str]:
    """What a planner reads that gives these answers, one after the other, in an episode of this world."""
    seen: list[str] = []

    def planner(prompt: str) -> str:
        seen.append(prompt)
        return answers[min(len(seen), len(answers)) - 1]

    path = CallPath(
        PlannerPool(FunctionPlanner(planner)),
        {"full": Mode(plan_template(world.skills.describe()), (Fit(NoCompression()),))},
        world.skills,
    )
    policy = FixedPolicy({"full": Budget("full", None, None)}, mode="full")
    rules = Controller(ControllerConfig(period=period), policy)
    core: LoopCore[Any] = LoopCore(rules, path, NoLedger(), LoopConfig())
    world.max_steps = steps
    EpisodeLoop(core, world, ModelledClock(0.0, 0.0), hold=False).run(0, seed=1)
    return seen


def lines(prompt: str, kind: str) -> list[str]:
    return re.findall(rf"^\[{kind} \d+\] (.*)$", prompt, re.MULTILINE)


def test_a_plan_that_was_taken_is_told() -> None:
    prompts = prompts_of(FakeLine(goal=99), "goto(50)", "goto(60)")
    assert lines(prompts[0], "plan") == []
    assert lines(prompts[1], "plan") == ["goto(50)"]
    assert lines(prompts[2], "plan") == ["goto(50)", "goto(60)"]


def test_a_refused_plan_is_told_with_its_reason() -> None:
    prompts = prompts_of(FakeLine(goal=99, refuse="it is wet there"), "goto(50)")
    assert lines(prompts[1], "failure") == ["plan refused: it is wet there"]
    assert lines(prompts[1], "plan") == []


def test_an_answer_that_was_no_plan_is_told_with_what_is_wrong() -> None:
    prompts = prompts_of(FakeLine(goal=99), "Sure! Here is the plan.", "goto(50)")
    (told,) = lines(prompts[1], "failure")
    assert told.startswith("the last answer was no plan: line 1, column")
    assert len(lines(prompts[2], "failure")) == 1


def test_a_wrapped_environment_has_plan_and_refusal_lines() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    skills = SkillSet([Skill("push", (Arg("side", "name"),))])
    env = gymnasium.make("CartPole-v1")
    world = GymWorld(
        env, id="cart-v1", task="keep the pole up", skills=skills, idle=0,
        act=lambda call, seen: Ended() if abs(seen[2]) > 1 else int(call.args[0] == "right"),
        describe=lambda seen, info: "", max_steps=9, names={"side": ("left", "right")},
    )  # fmt: skip
    prompts = prompts_of(world, "push(left)", "push(up)", "push(right)", period=1, steps=6)
    assert lines(prompts[1], "plan") == ["push(left)"]
    (told,) = lines(prompts[2], "failure")
    assert told.startswith("plan refused: agent 0, push(up): unknown side 'up'")
    assert lines(prompts[-1], "plan")[:2] == ["push(left)", "push(right)"]


def test_a_user_s_loop_tells_the_same_at_once() -> None:
    prompts: list[str] = []
    answers = ["what?", "goto(sea)", "goto(land)", "goto(land)"]

    def planner(prompt: str) -> str:
        prompts.append(prompt)
        return answers[len(prompts) - 1]

    def accept(plan: Plan) -> str | None:
        return "it is wet there" if "sea" in str(plan) else None

    with Agent(planner, accept=accept, while_thinking="hold") as agent:
        for _ in answers:
            agent.step(failed=True)
    assert [len(lines(prompt, "failure")) for prompt in prompts] == [0, 1, 2, 2]
    assert lines(prompts[1], "failure")[0].startswith("the last answer was no plan")
    assert lines(prompts[2], "failure")[1] == "plan refused: it is wet there"
    assert lines(prompts[3], "plan") == ["goto(land)"]


def test_a_world_may_keep_quiet_about_a_plan_that_brings_nothing_new() -> None:
    class Quiet(FakeLine):
        def line_for(self, plan: Plan, before: Plan) -> str:
            return "" if plan == before else str(plan)

    world = Quiet(goal=99)
    plan = parse("goto(50)", SKILLS)
    assert [segment.text for segment in tell_plan(world, plan, 0)[1]] == ["goto(50)"]
    assert tell_plan(world, plan, 1) == (None, [])
