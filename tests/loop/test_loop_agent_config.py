"""An agent takes the same configuration as a run; options of the wrong type are refused by their name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from brace import Agent, ControllerConfig
from brace.controller import Signals
from brace.errors import BraceError
from brace.ledger.records import Call, Episode, Step
from brace.ledger.scan import read_records
from brace.loop.build import build_rules
from brace.loop.config import load_config
from brace.loop.replay import Replay, redecide
from fake_world import SKILLS

NOTE = "the carpet in front of the kitchen is slippery"
CONFIG: dict[str, Any] = {
    "controller": {
        "cooldown": 2, "triggers": ["failure", "goal", "exhausted", "hazard"], "overrides": ["hazard"],
    },
    "modes": {
        "pruned": {
            "tokens": 120, "slo_ms": 5000, "compress": "structured",
            "retrieve": {"name": "lexical", "options": {"notes": [NOTE], "reserve": 20}},
            "template": "Short!\n{skills}{context}Next:\n",
        },
        "full": {"tokens": 400, "slo_ms": 9000, "compress": "recency"},
    },
    "budget": {"mode": "pruned", "escalate": ["goal"]},
    "loop": {"while_thinking": "hold", "fallback": ["stored", "stop"], "stored_plan": "wait()"},
}  # fmt: skip


class Planner:
    """Remembers its prompts."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.prompts = list(answers), []

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_modes_templates_retrievers_policies_and_overrides_are_those_of_a_run(tmp_path: Path) -> None:
    planner = Planner("goto(1)")
    with Agent.from_config(
        CONFIG, planner, task="to the kitchen", skills=SKILLS, ledger=tmp_path / "run"
    ) as agent:
        agent.step([f"step {n}: in the kitchen, on the carpet" for n in range(30)])
        assert planner.prompts[-1].startswith("Short!\n")
        assert planner.prompts[-1].endswith("Next:\n")
        assert NOTE in planner.prompts[-1]
        agent.step(["quiet"])
        escalated = agent.step(goal="to the den")
        assert escalated.decision.budget is not None
        assert escalated.decision.budget.mode == "full"
        assert planner.prompts[-1].startswith("You plan for a robot.")
        closed = agent.step(failed=True)
        assert closed.decision.gate == "cooldown"
        assert agent.step(hazard="critical").decision.override is None
        assert agent.step(hazard="critical").decision.override == "hazard"
    calls = [record for record in read_records(tmp_path / "run") if isinstance(record, Call)]
    assert [call.mode for call in calls[:2]] == ["pruned", "full"]
    assert all(call.tokens_after <= (call.budget or 0) for call in calls)
    assert not list(redecide(tmp_path / "run", Replay()))


def test_a_fallback_of_the_configuration_is_taken() -> None:
    with Agent.from_config(CONFIG, Planner("no plan at all"), skills=SKILLS) as agent:
        assert str(agent.step(["go"]).plan) == "wait()"


def test_a_yaml_file_will_do_and_its_planner_is_taken_where_none_is_given(tmp_path: Path) -> None:
    file = tmp_path / "loop.yaml"
    file.write_text(
        "planner: {name: fake-fixed, options: {prefill_ms: 0, decode_ms: 0, text: goto(7)}}\n"
        "modes: {full: {slo_ms: 2000}}\nbudget: {mode: full}\nloop: {while_thinking: hold}\n"
    )
    with Agent.from_config(file) as agent:
        assert str(agent.step(["go"]).plan) == "goto(7)"


def test_both_ways_to_make_an_agent_decide_alike(tmp_path: Path) -> None:
    controller = ControllerConfig(cooldown=3, commit=2, window=2)
    configured = {
        "controller": {"cooldown": 3, "commit": 2, "window": 2},
        "modes": {"pruned": {"tokens": 200, "slo_ms": 800.0, "compress": "recency"}},
        "budget": {"mode": "pruned"}, "loop": {"while_thinking": "hold"},
    }  # fmt: skip
    agents = {
        "short": Agent(
            Planner("goto(1)"), slo_ms=800, budget=200, controller=controller, while_thinking="hold",
            ledger=tmp_path / "short",
        ),
        "whole": Agent.from_config(configured, Planner("goto(1)"), ledger=tmp_path / "whole"),
    }  # fmt: skip
    for agent in agents.values():
        with agent:
            for t in range(12):
                agent.step([f"step {t}"], failed=t % 4 == 1, progress=0.0, done=int(t % 5 == 2))
    made = {
        name: [
            (step.triggers, step.replan, step.gate, step.override, step.mode, step.budget, step.slo_ms)
            for step in read_records(tmp_path / name)
            if isinstance(step, Step)
        ]
        for name in agents
    }
    assert made["short"] == made["whole"]
    assert any(replan for _, replan, *_ in made["short"])


def test_a_user_s_loop_is_decided_as_a_world_s_by_the_same_configuration() -> None:
    """The decisions depend on the configuration and the signals, not on the loop that carries them."""
    rules = build_rules(load_config({"world": "proxy-v2", **CONFIG}))
    state = rules.start()
    with Agent.from_config(CONFIG, Planner("goto(1)"), skills=SKILLS) as agent:
        for t in range(8):
            told = agent.step([f"step {t}"], failed=t in (2, 3), goal="b" if t == 5 else None)
            state, triggers = rules.observe(
                state, Signals(failed=t in (2, 3), goal_changed=t == 5, exhausted=t == 0)
            )
            decision = rules.judge(state, t, triggers, Signals())
            assert (told.decision.triggers, told.decision.gate) == (decision.triggers, decision.gate)
            state = rules.advance(state, decision)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"slo_ms": "soon"}, "Agent: slo_ms = 'soon'"),
        ({"budget": 12.5}, "Agent: budget = 12.5"),
        ({"budget": True}, "Agent: budget = True"),
        ({"compress": 7}, "Agent: compress = 7"),
        ({"controller": {"cooldown": "x"}}, "Agent: controller = {'cooldown': 'x'}: Expected `int`"),
        ({"while_thinking": "wait"}, "Agent: while_thinking = 'wait'; known: hold, continue"),
        ({"fallback": "keep"}, "Agent: fallback = 'keep'"),
        ({"task": 3}, "Agent: task = 3"),
        ({"skills": ["goto"]}, "Agent: skills = ['goto']: Expected `SkillSet`, got `list`"),
        ({"names": "hall"}, "Agent: names = 'hall'"),
        ({"accept": "yes"}, "Agent: accept = 'yes': expected a function of a plan"),
        ({"stored_plan": 5}, "Agent: stored_plan = 5"),
    ],
)  # fmt: skip
def test_an_option_of_the_wrong_type_is_refused_by_its_name(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BraceError, match=re.escape(message)):
        Agent(lambda prompt: "wait()", **arguments)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"mode": {}}, "unknown key 'mode'; did you mean 'modes'"),
        ({"controller": {"cooldwn": 3}}, "unknown key 'controller.cooldwn'; did you mean 'cooldown'"),
        ({"modes": {"pruned": {"tokens": "many"}}}, "`modes[...].tokens`"),
        ({"modes": {"pruned": {"template": "no place"}}}, "a template"),
        ({"budget": {"policy": "fixd"}}, "did you mean 'fixed'"),
        ({"loop": {"start_with_default": True}}, "a loop of your own runs"),
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_work_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(BraceError, match=re.escape(message)):
        Agent.from_config({"modes": {"pruned": {}}, **changed}, lambda prompt: "wait()")


def test_a_world_in_the_configuration_plays_no_part(tmp_path: Path) -> None:
    config = {"world": "babyai-v1", "modes": {"pruned": {}}, "loop": {"while_thinking": "hold"}}
    with Agent.from_config(config, Planner("goto(2)"), ledger=tmp_path / "run") as agent:
        assert str(agent.step(["go"]).plan) == "goto(2)"
    (end,) = (record for record in read_records(tmp_path / "run") if isinstance(record, Episode))
    assert end.world == "live"
