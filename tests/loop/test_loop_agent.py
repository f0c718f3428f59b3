"""BRACE in a user's own loop: non-blocking or blocking, shared planners, refusals, ledger."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brace import Agent, BraceError, ControllerConfig, Plan, PlannerPool, Skill, SkillSet
from brace.ledger.metrics import summarise
from brace.ledger.reader import load_run
from brace.planners import FunctionPlanner


def until(agent: Agent, condition: Callable[[Any], bool], seconds: float = 10.0, **flags: Any) -> Any:
    """Step until the condition holds, as a control loop would."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        step = agent.step(**flags)
        if condition(step):
            return step
        time.sleep(0.002)
    raise AssertionError("it did not happen in time")


def test_a_step_does_not_block_while_the_planner_thinks() -> None:
    release = threading.Event()

    def planner(prompt: str) -> str:
        release.wait(10)
        return "goto(door)"

    with Agent(planner) as agent:
        start = time.perf_counter()
        first = agent.step(["door ahead"])
        assert time.perf_counter() - start < 5
        assert (first.decision.replan, first.plan, agent.thinking) == (True, Plan(), True)
        assert agent.step().decision.gate == "in_flight"
        release.set()
        arrived = until(agent, lambda step: step.arrived)
        assert str(arrived.plan) == "goto(door)"
        assert not agent.thinking


def test_holding_blocks_until_the_plan_is_there() -> None:
    with Agent(lambda prompt: "goto(door)", while_thinking="hold") as agent:
        step = agent.step(["door ahead"])
        assert (step.arrived, str(step.plan)) == (True, "goto(door)")


def test_done_skills_leave_the_plan_and_its_end_asks_for_another() -> None:
    with Agent(lambda prompt: "goto(a); goto(b)", while_thinking="hold") as agent:
        agent.step()
        assert str(agent.step(done=1).plan) == "goto(b)"
        again = agent.step(done=1)
        assert again.decision.triggers == ("exhausted",)
        assert again.decision.replan


def test_the_planner_is_told_task_goal_plan_and_news() -> None:
    prompts: list[str] = []

    def planner(prompt: str) -> str:
        prompts.append(prompt)
        return "goto(a)"

    skills = SkillSet([Skill("wait")])
    with Agent(planner, task="tidy up", while_thinking="hold", skills=skills) as agent:
        agent.step(["cup seen"], goal="cup away")
        assert "wait()" in prompts[0], "the skills stand in the prompt"
    with Agent(planner, task="tidy up", while_thinking="hold") as agent:
        agent.step(["cup seen"], goal="cup away")
        agent.step(["cup gone"], failed=True)
    for told in ("tidy up", "cup away", "cup seen", "cup gone", "goto(a)"):
        assert told in prompts[-1]


def test_a_skill_the_robot_does_not_have_is_a_fallback_not_a_plan() -> None:
    skills = SkillSet([Skill("wait")])
    with Agent(lambda prompt: "fly()", skills=skills, while_thinking="hold", stored_plan="wait()") as agent:
        assert str(agent.step().plan) == "wait()"


def test_a_refused_plan_is_a_failure_trigger_and_is_told() -> None:
    prompts: list[str] = []

    def planner(prompt: str) -> str:
        prompts.append(prompt)
        return "goto(sea)" if len(prompts) == 1 else "goto(land)"

    def accept(plan: Plan) -> str | None:
        return "it is wet there" if "sea" in str(plan) else None

    with Agent(planner, accept=accept, while_thinking="hold") as agent:
        refused = agent.step()
        assert (refused.arrived, refused.stop) == (False, True)
        second = agent.step()
        assert "failure" in second.decision.triggers
        assert "plan refused: it is wet there" in prompts[1]
        assert str(second.plan) == "goto(land)"
        assert not second.stop


def test_a_deadline_is_enforced_and_the_old_plan_kept(tmp_path: Path) -> None:
    answers = iter([0.0, 3600.0])

    def planner(prompt: str) -> str:
        time.sleep(next(answers))
        return "goto(a)"

    with Agent(planner, slo_ms=100, while_thinking="hold", ledger=tmp_path / "run") as agent:
        agent.step()
        start = time.perf_counter()
        step = agent.step(failed=True)
        assert time.perf_counter() - start < 5
        assert str(step.plan) == "goto(a)"
    run = load_run(tmp_path / "run")
    assert run.calls["status"].to_list() == ["ok", "cut"]
    assert run.calls["missed"].to_list() == [False, True]
    assert run.calls["fallback"].to_list() == [None, "keep"]


def test_agents_share_a_planner_and_queueing_is_told_apart(tmp_path: Path) -> None:
    busy = threading.Lock()

    def planner(prompt: str) -> str:
        assert busy.acquire(blocking=False), "two calls at once in a pool of one worker"
        time.sleep(0.05)
        busy.release()
        return "goto(a)"

    pool = PlannerPool(FunctionPlanner(planner))
    agents = [Agent(pool, ledger=tmp_path / "run") for _ in range(4)]
    for agent in agents:
        agent.step()
    for agent in agents:
        until(agent, lambda step: bool(step.plan))
        agent.close(success=True)
    run = load_run(tmp_path / "run")
    assert run.calls["status"].to_list() == ["ok"] * 4
    assert sorted(run.episodes["episode"].to_list()) == [0, 1, 2, 3]
    queued = summarise(run)["queue_per_call"].value
    assert queued is not None
    assert queued > 50
    waited, latency = run.calls["wait_ms"].to_list(), run.calls["latency_ms"].to_list()
    assert all(wait <= total for wait, total in zip(waited, latency, strict=True))
    assert max(waited) < max(latency) - 80, "queueing is not counted as wait"


def test_a_critical_hazard_cancels_what_is_in_flight() -> None:
    hang, entered = threading.Event(), threading.Event()

    def planner(prompt: str) -> str:
        if "person" not in prompt:
            entered.set()
            hang.wait(30)
        return "stop()"

    agent = Agent(
        PlannerPool(FunctionPlanner(planner), workers=2), controller=ControllerConfig(cooldown=1000)
    )
    with agent:
        agent.step()
        assert entered.wait(10)
        step = agent.step(["person ahead"], hazard="critical")
        assert (step.decision.cancel, step.decision.override) == ("hazard", "hazard")
        assert str(until(agent, lambda s: s.arrived).plan) == "stop()"
        hang.set()


def test_a_goal_change_is_remembered_until_it_is_asked_for() -> None:
    with Agent(lambda p: "goto(a)", while_thinking="hold", controller=ControllerConfig(cooldown=3)) as agent:
        agent.step()
        assert agent.step(goal="b").decision.gate == "cooldown"
        assert agent.step().decision.triggers == ()
        asked = agent.step().decision
        assert (asked.replan, asked.triggers) == (True, ("goal",))
        assert agent.step().decision.triggers == ()


def test_asyncio_loops_go_on_while_a_call_is_waited_for() -> None:
    def planner(prompt: str) -> str:
        time.sleep(0.2)
        return "goto(a)"

    async def main() -> tuple[int, str]:
        ticks = 0
        with Agent(planner, while_thinking="hold") as agent:
            step = asyncio.create_task(agent.astep(["x"]))
            while not step.done():
                ticks += 1
                await asyncio.sleep(0.005)
            return ticks, str((await step).plan)

    ticks, plan = asyncio.run(main())
    assert plan == "goto(a)"
    assert ticks > 3


def test_a_planner_that_raises_never_reaches_the_loop(tmp_path: Path) -> None:
    def planner(prompt: str) -> str:
        raise ConnectionError("no route to model")

    with Agent(planner, while_thinking="hold", ledger=tmp_path / "run") as agent:
        assert agent.step().stop
    call = load_run(tmp_path / "run").calls.to_dicts()[0]
    assert (call["status"], call["fallback"]) == ("failed", "stop")
    assert "no route to model" in call["error"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"slo_ms": 0}, "slo_ms = 0"),
        ({"slo_ms": -5}, "slo_ms = -5"),
        ({"budget": 3}, "the prompt template alone has"),
        ({"compress": "recent"}, "did you mean 'recency'"),
        ({"fallback": ("kep",)}, "did you mean 'keep'"),
        ({"stored_plan": "goto(", }, "line 1, column"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BraceError, match=re.escape(message)):
        Agent(lambda prompt: "wait()", **arguments)


def test_a_single_text_as_context_is_refused() -> None:
    with Agent(lambda prompt: "wait()") as agent, pytest.raises(BraceError, match=r"write \[text\]"):
        agent.step("one text")


def test_the_example_runs(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "plain_loop.py"
    done = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    assert "reached the ball at 2" in done.stdout
    run = load_run(tmp_path / "runs" / "plain_loop")
    assert run.episodes["success"].to_list() == [True]
    assert len(run.calls) == 2
