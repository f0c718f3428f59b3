"""What the controller promises for every trace: spacing, honest overrides, determinism, a small memory."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import controller_traces
import pytest
from controller_traces import (
    LIVELY,
    OVERRIDES,
    POLICY,
    UNBOUNDED,
    Run,
    Trace,
    configs,
    drive,
    random_trace,
    traces,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from brace.controller import Controller, ControllerConfig, Signals, decide

EVENTS = {"failure", "divergence", "goal"}


def said_now(config: ControllerConfig, signals: Signals) -> set[str]:
    """The events that a step's own signals may raise."""
    far = config.divergence_limit is not None and signals.divergence > config.divergence_limit
    there = {"failure": signals.failed, "divergence": far, "goal": signals.goal_changed}
    return {name for name, true in there.items() if true}


class Ledger:
    """An independent account of a run, from what was handed in and said only."""

    def __init__(self, config: ControllerConfig, run: Run) -> None:
        self.since_call: list[float] = []
        self.since_change: list[float] = []
        self.causes: list[set[str]] = []
        last_call = last_change = -math.inf
        failures, evidence = 0, list[bool]()
        for t, step in enumerate(run.steps):
            signals = step.signals
            if signals.outcome is not None and signals.outcome.changed:
                last_change = signals.outcome.t
            self.since_call.append(t - last_call)
            self.since_change.append(t - last_change)
            failures = (0 if signals.succeeded else failures) + signals.failed
            if signals.progress is not None:
                evidence = [*evidence, signals.progress <= 0][-config.window :]
            stuck = signals.deadlock or sum(evidence) >= (config.deadlock_evidence or config.window)
            present = {
                "hazard": signals.hazard == "critical",
                "deadlock": stuck,
                # A row too short for the trigger gives the gate nothing to bypass.
                "failures": signals.failed
                and failures >= max(config.override_failures, config.failure_repeat),
            }
            self.causes.append({cause for cause in config.overrides if present[cause]})
            if step.decision.replan:
                last_call, evidence = t, []
            if step.decision.override == "failures":
                failures = 0

    def open(self, config: ControllerConfig, t: int) -> bool:
        return self.since_call[t] >= config.cooldown and self.since_change[t] >= config.commit


@settings(deadline=None, max_examples=150)
@given(configs(overrides=False), traces)
def test_without_overrides_calls_are_at_least_a_cooldown_apart(
    config: ControllerConfig, trace: Trace
) -> None:
    calls = drive(config, trace).calls
    assert all(later - earlier >= config.cooldown for earlier, later in pairwise(calls))


@settings(deadline=None, max_examples=150)
@given(configs(overrides=False), traces)
def test_without_overrides_plan_changes_are_at_least_a_commit_window_apart(
    config: ControllerConfig, trace: Trace
) -> None:
    changes = drive(config, trace).changes
    assert all(later.t - earlier.t >= config.commit for earlier, later in pairwise(changes))


@settings(deadline=None, max_examples=150)
@given(configs(overrides=False), traces)
def test_without_overrides_a_trigger_is_honoured_exactly_when_the_gate_is_open(
    config: ControllerConfig, trace: Trace
) -> None:
    run = drive(config, trace)
    ledger = Ledger(config, run)
    for t, step in enumerate(run.steps):
        verdict, triggers = step.decision, step.decision.triggers
        free = not step.signals.in_flight or "goal" in triggers
        assert verdict.replan == (bool(triggers) and free and ledger.open(config, t))
        assert (step.decision.budget is not None) == verdict.replan
        assert step.decision.suppressed == (bool(triggers) and not verdict.replan)


@settings(deadline=None, max_examples=150)
@given(st.booleans().flatmap(lambda overrides: configs(overrides=overrides)), traces)
def test_an_event_that_was_held_back_is_honoured_as_soon_as_the_gate_is_open(
    config: ControllerConfig, trace: Trace
) -> None:
    run = drive(config, trace)
    ledger = Ledger(config, run)
    waiting: set[str] = set()
    for t, step in enumerate(run.steps):
        triggers = set(step.decision.triggers)
        own = said_now(config, step.signals)
        if ledger.open(config, t) and not step.signals.in_flight:
            assert waiting <= triggers, "forgotten"
            assert step.decision.replan or not waiting
        else:
            assert triggers & waiting <= own | {"goal"}, "raised again before it would be honoured"
        waiting = set() if step.decision.replan else waiting | (triggers & EVENTS)


@settings(deadline=None)
@given(st.booleans().flatmap(lambda overrides: configs(overrides=overrides)), traces)
def test_the_first_trigger_ever_is_always_admitted(config: ControllerConfig, trace: Trace) -> None:
    triggered = [decision for decision in drive(config, trace).decisions if decision.triggers]
    if triggered:
        assert triggered[0].replan
        assert triggered[0].override is None


@settings(deadline=None, max_examples=150)
@given(configs(overrides=True), traces)
def test_every_breach_of_a_spacing_is_logged_as_an_override(config: ControllerConfig, trace: Trace) -> None:
    run = drive(config, trace)
    overridden = {decision.t for decision in run.decisions if decision.override}
    for earlier, later in pairwise(run.calls):
        assert later - earlier >= config.cooldown or later in overridden
    for before, after in pairwise(run.changes):
        assert after.t - before.t >= config.commit or after.called in overridden


@settings(deadline=None, max_examples=150)
@given(configs(overrides=True), traces)
def test_an_override_names_a_cause_that_was_there_and_only_when_the_gate_was_closed(
    config: ControllerConfig, trace: Trace
) -> None:
    run = drive(config, trace)
    ledger = Ledger(config, run)
    for t, step in enumerate(run.steps):
        verdict = step.decision
        if verdict.override is not None:
            assert verdict.replan
            assert verdict.override in ledger.causes[t]
            assert not ledger.open(config, t)
        elif ledger.causes[t] and not step.signals.in_flight:
            assert verdict.replan, "a cause that may override was there and the gate still refused"


@settings(deadline=None, max_examples=150)
@given(configs(overrides=True), traces)
def test_a_refusal_names_the_window_that_is_really_closed(config: ControllerConfig, trace: Trace) -> None:
    run = drive(config, trace)
    ledger = Ledger(config, run)
    for t, step in enumerate(run.steps):
        match step.decision.gate:
            case "in_flight":
                assert step.signals.in_flight
            case "cooldown":
                assert not step.signals.in_flight
                assert ledger.since_call[t] < config.cooldown
            case "commit":
                assert not step.signals.in_flight
                assert ledger.since_change[t] < config.commit
            case None:
                assert step.decision.replan or not step.decision.triggers


@settings(deadline=None)
@given(configs(overrides=True), traces)
def test_a_cancelled_call_is_one_that_was_in_flight(config: ControllerConfig, trace: Trace) -> None:
    for step in drive(config, trace).steps:
        verdict = step.decision
        assert (verdict.cancel is not None) == (verdict.replan and step.signals.in_flight)


@settings(deadline=None)
@given(configs(overrides=True), traces)
def test_replaying_the_signals_reproduces_the_decisions(config: ControllerConfig, trace: Trace) -> None:
    run = drive(config, trace)
    controller = Controller(config, POLICY)
    state, replayed = controller.start(), []
    for t, step in enumerate(run.steps):
        decision, state = decide(controller, state, step.signals, t)
        replayed.append(decision)
    assert repr(replayed) == repr(run.decisions)


@settings(deadline=None)
@given(configs(overrides=True), traces, st.integers(0, 60))
def test_a_saved_state_continues_as_if_never_interrupted(
    config: ControllerConfig, trace: Trace, cut: int
) -> None:
    run = drive(config, trace)
    for t, before in enumerate(run.steps[cut : cut + 1], start=cut):
        state = run.steps[t - 1].state if t else Controller(config, POLICY).start()
        again, after = decide(Controller(config, POLICY), state, before.signals, t)
        assert (again, after) == (before.decision, before.state)


def test_decisions_are_the_same_in_every_process_whatever_the_hash_seed() -> None:
    script = Path(controller_traces.__file__)
    here = "\n".join(map(repr, drive(LIVELY, random_trace(0, 400)).decisions))
    for seed in ("1", "4242"):
        other = subprocess.run(
            [sys.executable, str(script)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert other.stdout == here
    for cause in ("hazard", "deadlock", "failures"):
        assert f"override={cause!r}" in here, "the trace exercises overrides"
    assert "cancel='goal'" in here, "the trace exercises calls in flight"


@pytest.mark.parametrize("window", [1, 5, 40])
def test_the_memory_is_bounded_by_the_window_after_ten_thousand_steps(window: int) -> None:
    config = ControllerConfig(cooldown=2, commit=3, window=window, period=7, overrides=OVERRIDES)
    run = drive(config, random_trace(1, 10_000), UNBOUNDED)
    for step in run.steps[100::99]:
        assert len(step.state.stalled) <= window
        assert len(repr(step.state)) <= 600 + 8 * window
    assert len(run.calls) > 1000, "the trace makes many calls"


def test_the_evidence_kept_without_any_call_is_bounded_by_the_window() -> None:
    controller = Controller(ControllerConfig(window=6, triggers=("goal",)), UNBOUNDED)
    state = controller.start()
    for t in range(200):
        _, state = decide(controller, state, Signals(progress=0.0), t)
        assert len(state.stalled) == min(t + 1, 6)


def test_a_decision_does_not_depend_on_what_was_decided_by_the_same_controller_elsewhere() -> None:
    shared = Controller(LIVELY, POLICY)
    alone, together = shared.start(), shared.start()
    for t, (signals, _) in enumerate(random_trace(5, 200)):
        expected, alone = decide(Controller(LIVELY, POLICY), alone, signals, t)
        decide(shared, shared.start(), Signals(failed=True, hazard="critical"), t)
        got, together = decide(shared, together, signals, t)
        assert got == expected
