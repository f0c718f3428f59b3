"""Each trigger fires exactly when it should."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from controller_traces import UNBOUNDED, drive, random_trace

from brace.controller import TRIGGERS, CallOutcome, Controller, ControllerConfig, Decision, Signals, decide

QUIET, FAIL, WELL = Signals(), Signals(failed=True), Signals(succeeded=True)
STILL, MOVE = Signals(progress=0.0), Signals(progress=1.0)
SHUT = 1000
"""A window so long that no second call is admitted: evidence is then never cleared by one."""


def said(config: ControllerConfig, signals: list[Signals]) -> list[Decision]:
    controller = Controller(config, UNBOUNDED)
    state, decisions = controller.start(), []
    for t, now in enumerate(signals):
        decision, state = decide(controller, state, now, t)
        decisions.append(decision)
    return decisions


def fired(trigger: str, config: ControllerConfig, signals: list[Signals]) -> str:
    """One character a step: `x` where the trigger fired."""
    return "".join(".x"[trigger in decision.triggers] for decision in said(config, signals))


def diverged(*distances: float) -> list[Signals]:
    return [Signals(divergence=distance) for distance in distances]


TABLE: list[tuple[str, dict[str, Any], list[Signals], str]] = [
    ("periodic", {"period": 3}, [QUIET] * 7, "x..x..x"),
    ("periodic", {"period": 1}, [QUIET] * 3, "xxx"),
    ("periodic", {"period": None}, [QUIET] * 5, "....."),
    ("failure", {}, [FAIL, QUIET, FAIL], "x.x"),
    ("failure", {"failure_repeat": 2}, [FAIL, FAIL, FAIL], ".xx"),
    ("failure", {"failure_repeat": 2}, [FAIL, QUIET, FAIL], "..x"),
    ("failure", {"failure_repeat": 2}, [FAIL, WELL, FAIL, FAIL], "...x"),
    ("failure", {"failure_repeat": 2}, [FAIL, Signals(failed=True, succeeded=True), FAIL], "..x"),
    ("divergence", {"divergence_limit": 1.0}, diverged(0.5, 1.0, 1.5, 0.0), "..x."),
    ("divergence", {"divergence_limit": 0.0}, diverged(0.0, 1e-9), ".x"),
    ("divergence", {}, diverged(1e300, math.inf), ".."),
    ("hazard", {}, [QUIET, Signals(hazard="warning"), Signals(hazard="critical"), QUIET], ".xx."),
    ("deadlock", {"window": 3, "cooldown": SHUT}, [STILL] * 5, "..x.."),
    ("deadlock", {"window": 3, "deadlock_evidence": 2}, [STILL, MOVE, STILL, MOVE], "..x."),
    ("deadlock", {"window": 3, "deadlock_evidence": 2}, [STILL, MOVE, MOVE, STILL], "...."),
    ("deadlock", {"window": 3}, [STILL, STILL, MOVE, STILL, STILL, STILL], ".....x"),
    ("deadlock", {"window": 2}, [STILL, QUIET, QUIET, STILL], "...x"),
    ("deadlock", {"window": 2}, [QUIET] * 6, "......"),
    ("deadlock", {"window": 2}, [Signals(progress=-1.0)] * 2, ".x"),
    ("deadlock", {"window": 2, "progress_epsilon": 0.1}, [Signals(progress=0.05)] * 2, ".x"),
    ("deadlock", {"window": 2, "progress_epsilon": 0.1}, [Signals(progress=0.1)] * 2, ".."),
    ("deadlock", {"window": 5}, [QUIET, Signals(deadlock=True), QUIET], ".x."),
    ("goal", {}, [QUIET, Signals(goal_changed=True), QUIET], ".x."),
    ("exhausted", {}, [Signals(exhausted=True), QUIET, Signals(exhausted=True)], "x.x"),
]


@pytest.mark.parametrize(("trigger", "knobs", "signals", "expected"), TABLE)
def test_a_trigger_fires_exactly_when_it_should(
    trigger: str, knobs: dict[str, Any], signals: list[Signals], expected: str
) -> None:
    assert fired(trigger, ControllerConfig(**knobs), signals) == expected


@pytest.mark.parametrize(("trigger", "knobs", "signals", "expected"), TABLE)
def test_a_trigger_that_is_switched_off_never_fires(
    trigger: str, knobs: dict[str, Any], signals: list[Signals], expected: str
) -> None:
    others = tuple(name for name in TRIGGERS if name != trigger)
    decisions = said(ControllerConfig(triggers=others, **knobs), signals)
    assert all(trigger not in decision.triggers for decision in decisions)


def test_the_table_covers_every_trigger() -> None:
    assert {row[0] for row in TABLE if "x" in row[3]} == set(TRIGGERS)


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_switched_off_trigger_never_fires_in_a_long_random_trace(trigger: str) -> None:
    config = ControllerConfig(period=3, divergence_limit=1.0, window=3)
    others = dataclasses.replace(config, triggers=tuple(name for name in TRIGGERS if name != trigger))
    trace = random_trace(0, 300)
    assert any(trigger in decision.triggers for decision in drive(config, trace, UNBOUNDED).decisions)
    assert not any(trigger in decision.triggers for decision in drive(others, trace, UNBOUNDED).decisions)


def test_a_switched_off_trigger_does_not_lend_its_override() -> None:
    config = ControllerConfig(cooldown=SHUT, triggers=("goal",))
    trouble = Signals(goal_changed=True, hazard="critical", deadlock=True, failed=True)
    decisions = said(config, [trouble] * 5)
    assert [decision.replan for decision in decisions] == [True, False, False, False, False]


def test_silence_raises_no_trigger_at_all() -> None:
    assert all(decision.triggers == () for decision in said(ControllerConfig(), [QUIET] * 50))


def test_several_triggers_of_one_step_are_all_named() -> None:
    both = said(ControllerConfig(), [Signals(exhausted=True, goal_changed=True, failed=True)])[0]
    assert set(both.triggers) == {"failure", "goal", "exhausted"}


def test_standing_evidence_of_deadlock_stays_while_it_is_refused() -> None:
    config = ControllerConfig(window=3, cooldown=SHUT, overrides=())
    signals = [Signals(goal_changed=True), STILL, STILL, STILL, STILL, QUIET, MOVE]
    assert fired("deadlock", config, signals) == "...xxx."


def test_a_call_clears_the_evidence_of_deadlock() -> None:
    # The second call needs a whole window of new evidence.
    assert fired("deadlock", ControllerConfig(window=3), [STILL] * 9) == "..x..x..x"


def test_a_call_for_another_reason_clears_the_evidence_of_deadlock_too() -> None:
    signals = [STILL, STILL, Signals(progress=0.0, goal_changed=True), STILL, STILL, STILL]
    assert fired("deadlock", ControllerConfig(window=4), signals) == "......"
    assert fired("deadlock", ControllerConfig(window=4, triggers=("deadlock",)), signals) == "...x.."


def test_a_refused_trigger_does_not_clear_the_evidence_of_deadlock() -> None:
    config = ControllerConfig(window=3, cooldown=4, overrides=())
    goal = Signals(goal_changed=True, progress=0.0)
    # Called at 0; refused at 1; evidence of steps 1, 2, 3 is whole at 3 and is heard at 4.
    decisions = said(config, [goal, goal, STILL, STILL, STILL])
    assert [decision.replan for decision in decisions] == [True, False, False, False, True]
    assert "deadlock" in decisions[3].triggers


def test_an_override_clears_the_evidence_so_that_one_deadlock_is_one_override() -> None:
    config = ControllerConfig(window=3, cooldown=SHUT)
    decisions = said(config, [Signals(goal_changed=True)] + [STILL] * 7)
    overridden = [decision.t for decision in decisions if decision.override == "deadlock"]
    assert overridden == [3, 6]


def test_a_deadlock_that_the_world_declares_needs_no_evidence_and_leaves_none() -> None:
    config = ControllerConfig(window=3)
    assert fired("deadlock", config, [Signals(deadlock=True), STILL, STILL, STILL]) == "x..x"


def test_the_policy_is_handed_the_most_recent_latencies_oldest_first() -> None:
    controller = Controller(ControllerConfig(), UNBOUNDED)
    state = controller.start()
    for t in range(50):
        ended = Signals(outcome=CallOutcome(t, latency_ms=float(t)))
        _, state = decide(controller, state, ended, t)
    assert state.latencies_ms == tuple(float(t) for t in range(18, 50))
