"""The gate: why a trigger is refused, what bypasses it, and what may cancel a call in flight."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from controller_traces import OVERRIDES, UNBOUNDED

from brace.controller import (
    CallOutcome,
    Controller,
    ControllerConfig,
    ControllerState,
    Decision,
    Signals,
    decide,
)

GOAL = Signals(goal_changed=True)
CRITICAL = Signals(hazard="critical")


def after(config: ControllerConfig, *signals: Signals) -> tuple[Decision, ControllerState]:
    """The decision at the last of these steps, and the state behind it."""
    controller = Controller(config, UNBOUNDED)
    state = controller.start()
    for t, now in enumerate(signals):
        decision, state = decide(controller, state, now, t)
    return decision, state


def verdict(config: ControllerConfig, *signals: Signals) -> Decision:
    """Without what is the same in all of them."""
    return replace(after(config, *signals)[0], t=0, triggers=(), budget=None)


def said(replan: bool, **more: Any) -> Decision:
    return Decision(0, replan=replan, **more)


def ended(t: int, *, changed: bool, goal: bool = False) -> Signals:
    return Signals(goal_changed=goal, outcome=CallOutcome(t, changed))


def flying(**what: object) -> Signals:
    return Signals(in_flight=True, **what)  # type: ignore[arg-type]


def test_a_second_call_waits_for_exactly_the_cooldown() -> None:
    config = ControllerConfig(cooldown=3)
    assert verdict(config, GOAL, Signals(), GOAL) == said(False, gate="cooldown")
    assert verdict(config, GOAL, Signals(), Signals(), GOAL) == said(True)


def test_the_cooldown_runs_from_the_call_whether_or_not_the_plan_changed() -> None:
    config = ControllerConfig(cooldown=3)
    for changed in (False, True):
        assert verdict(config, GOAL, ended(0, changed=changed), GOAL) == said(False, gate="cooldown")


def test_a_changed_plan_lives_for_exactly_the_commit_window() -> None:
    config = ControllerConfig(commit=3)
    start = (GOAL, ended(0, changed=True))
    assert verdict(config, *start, GOAL) == said(False, gate="commit")
    assert verdict(config, *start, Signals(), GOAL) == said(True)


def test_the_commit_window_runs_from_the_step_the_call_ended_not_from_when_it_was_told() -> None:
    config = ControllerConfig(commit=3)
    flight = (GOAL, flying(), flying(), flying())
    assert verdict(config, *flight, ended(1, changed=True, goal=True)) == said(True)
    assert verdict(config, *flight, ended(2, changed=True, goal=True)) == said(False, gate="commit")


def test_a_plan_that_did_not_change_opens_no_commit_window() -> None:
    assert verdict(ControllerConfig(commit=5), GOAL, ended(0, changed=False), GOAL) == said(True)


def test_no_windows_at_all_honour_every_trigger() -> None:
    assert verdict(ControllerConfig(), GOAL, ended(0, changed=True, goal=True), GOAL) == said(True)


def test_without_a_trigger_an_open_gate_says_nothing() -> None:
    assert verdict(ControllerConfig(), Signals()) == said(False)
    assert verdict(ControllerConfig(cooldown=3), GOAL, Signals()) == said(False)
    assert verdict(ControllerConfig(), GOAL, flying()) == said(False)


@pytest.mark.parametrize(
    ("signals", "cause"),
    [
        (CRITICAL, "hazard"),
        (Signals(deadlock=True), "deadlock"),
        (Signals(failed=True), "failures"),
    ],
)
def test_each_override_bypasses_a_closed_gate_and_can_be_switched_off(signals: Signals, cause: str) -> None:
    on = ControllerConfig(cooldown=9, override_failures=1)
    assert verdict(on, GOAL, signals) == said(True, override=cause)
    others = tuple(name for name in OVERRIDES if name != cause)
    off = ControllerConfig(cooldown=9, override_failures=1, overrides=others)
    assert verdict(off, GOAL, signals) == said(False, gate="cooldown")


def test_an_override_bypasses_the_commit_window_too() -> None:
    config = ControllerConfig(commit=9)
    assert verdict(config, GOAL, ended(0, changed=True), CRITICAL) == said(True, override="hazard")


def test_a_warning_does_not_bypass_the_gate() -> None:
    config = ControllerConfig(cooldown=9)
    assert verdict(config, GOAL, Signals(hazard="warning")) == said(False, gate="cooldown")


def test_failures_bypass_the_gate_at_the_threshold_and_then_count_anew() -> None:
    config = ControllerConfig(cooldown=99, override_failures=3)
    fail = Signals(failed=True)
    causes = [verdict(config, GOAL, *[fail] * n).override for n in range(1, 7)]
    assert causes == [None, None, "failures", None, None, "failures"]


def test_a_success_ends_the_row_of_failures() -> None:
    config = ControllerConfig(cooldown=99, override_failures=2)
    fail = Signals(failed=True)
    assert verdict(config, GOAL, fail, Signals(succeeded=True), fail).override is None
    assert verdict(config, GOAL, fail, Signals(), fail).override == "failures"


def test_no_override_is_logged_when_the_gate_is_open() -> None:
    trouble = Signals(hazard="critical", deadlock=True, failed=True)
    assert verdict(ControllerConfig(override_failures=1), trouble) == said(True)


@pytest.mark.parametrize(
    "what", [{"failed": True}, {"deadlock": True}, {"exhausted": True}, {"hazard": "warning"}]
)
def test_while_a_call_runs_other_triggers_are_refused_as_in_flight(what: dict[str, object]) -> None:
    config = ControllerConfig(override_failures=1)
    assert verdict(config, GOAL, flying(**what)) == said(False, gate="in_flight")


def test_a_critical_hazard_cancels_the_call_in_flight() -> None:
    hazard = flying(hazard="critical")
    assert verdict(ControllerConfig(), GOAL, hazard) == said(True, cancel="hazard")
    closed = ControllerConfig(cooldown=9)
    assert verdict(closed, GOAL, hazard) == said(True, override="hazard", cancel="hazard")


@pytest.mark.parametrize("cooldown", [0, 9])
def test_a_critical_hazard_cancels_only_if_its_override_is_on(cooldown: int) -> None:
    config = ControllerConfig(cooldown=cooldown, overrides=("deadlock", "failures"))
    assert verdict(config, GOAL, flying(hazard="critical")) == said(False, gate="in_flight")


@pytest.mark.parametrize("order", list(permutations(OVERRIDES)))
def test_a_critical_hazard_cancels_whatever_else_is_wrong_and_however_overrides_are_listed(
    order: tuple[str, ...],
) -> None:
    config = ControllerConfig(cooldown=9, override_failures=1, overrides=order)  # type: ignore[arg-type]
    answer = verdict(config, GOAL, flying(hazard="critical", deadlock=True, failed=True))
    assert (answer.replan, answer.cancel) == (True, "hazard")


def test_a_goal_change_cancels_only_through_an_open_gate() -> None:
    goal = flying(goal_changed=True)
    assert verdict(ControllerConfig(), GOAL, goal) == said(True, cancel="goal")
    assert verdict(ControllerConfig(cooldown=2), GOAL, goal) == said(False, gate="in_flight")
    assert verdict(ControllerConfig(cooldown=2), GOAL, goal, goal) == said(True, cancel="goal")


def test_a_goal_change_does_not_borrow_another_cause_to_cancel() -> None:
    config = ControllerConfig(cooldown=9, override_failures=1)
    both = flying(goal_changed=True, failed=True, deadlock=True)
    assert verdict(config, GOAL, both) == said(False, gate="in_flight")


def test_both_counters_tick_while_a_call_is_in_flight() -> None:
    _, state = after(ControllerConfig(), GOAL, ended(0, changed=True, goal=True), flying(), flying())
    assert (state.since_call, state.since_change) == (3, 4)


def test_a_cancelling_call_starts_the_cooldown_anew() -> None:
    config = ControllerConfig(cooldown=2)
    goal = flying(goal_changed=True)
    # Called at 0, cancelled for a new one at 2, so the next is due at 4.
    assert verdict(config, GOAL, flying(), goal, goal) == said(False, gate="in_flight")
    assert verdict(config, GOAL, flying(), goal, flying(), goal) == said(True, cancel="goal")


@pytest.mark.parametrize(
    ("event", "trigger"),
    [(Signals(failed=True), "failure"), (Signals(divergence=9.0), "divergence"), (GOAL, "goal")],
)
def test_an_event_in_the_cooldown_is_answered_when_it_is_over_and_once(event: Signals, trigger: str) -> None:
    config = ControllerConfig(cooldown=4, divergence_limit=1.0)
    controller = Controller(config, UNBOUNDED)
    state, decisions = controller.start(), []
    for t, signals in enumerate([GOAL, event, event, *[Signals()] * 6]):
        decision, state = decide(controller, state, signals, t)
        decisions.append(decision)
    assert [decision.triggers for decision in decisions[1:5]] == [(trigger,), (trigger,), (), (trigger,)]
    assert [decision.t for decision in decisions if decision.replan] == [0, 4]


def test_an_event_during_a_call_is_answered_after_it() -> None:
    failed, landed = flying(failed=True), Signals(outcome=CallOutcome(3, changed=True))
    assert verdict(ControllerConfig(), GOAL, failed) == said(False, gate="in_flight")
    assert verdict(ControllerConfig(), GOAL, failed, flying()) == said(False)
    assert verdict(ControllerConfig(), GOAL, failed, flying(), landed) == said(True)
    # A new plan starts the commit window: the event waits for its end.
    config = ControllerConfig(commit=2)
    assert verdict(config, GOAL, failed, flying(), landed) == said(False)
    assert verdict(config, GOAL, failed, flying(), landed, Signals(), Signals()) == said(True)


def test_a_goal_change_held_back_cancels_the_call_once_the_gate_is_open() -> None:
    goal = flying(goal_changed=True)
    assert verdict(ControllerConfig(cooldown=2), GOAL, goal, flying()) == said(True, cancel="goal")


def test_what_is_no_event_is_not_remembered() -> None:
    passing = Signals(hazard="warning", deadlock=True, exhausted=True)
    config = ControllerConfig(cooldown=3, overrides=())
    assert verdict(config, GOAL, passing, Signals(), Signals()) == said(False)


def test_an_override_s_call_answers_what_was_held_back() -> None:
    config = ControllerConfig(cooldown=3)
    steps = (GOAL, Signals(failed=True), Signals(hazard="critical"), *[Signals()] * 3)
    assert verdict(config, *steps) == said(False)
