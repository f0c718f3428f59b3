"""From what happened to reasons to replan."""

from __future__ import annotations

from dataclasses import replace

from brace.controller.config import ControllerConfig
from brace.controller.gate import closed_by
from brace.controller.signals import Signals, Trigger
from brace.controller.state import RECENT_LATENCIES, ControllerState

_EVENTS: frozenset[Trigger] = frozenset({"failure", "divergence", "goal"})
"""Said in one step only. The others are there as long as their reason is, or come again."""


def observe(
    config: ControllerConfig, state: ControllerState, signals: Signals
) -> tuple[ControllerState, tuple[Trigger, ...]]:
    """Take one step's signals into the state and say which triggers they raise.

    An event that was not honoured is raised again in the first step in which it would be: held back, not
    forgotten.
    """
    state = _take_in(config, state, signals)
    fired: dict[Trigger, bool] = {
        "periodic": config.period is not None and state.t % config.period == 0,
        "failure": signals.failed and state.failures >= config.failure_repeat,
        "divergence": config.divergence_limit is not None and signals.divergence > config.divergence_limit,
        "hazard": signals.hazard is not None,
        "deadlock": state.deadlocked,
        "goal": signals.goal_changed,
        "exhausted": signals.exhausted,
    }
    due = _due(config, state, signals)
    triggers = tuple(name for name in config.triggers if fired[name] or name in due)
    events = (name for name in triggers if name in _EVENTS and name not in state.held_back)
    return replace(state, held_back=(*state.held_back, *events)), triggers


def _due(config: ControllerConfig, state: ControllerState, signals: Signals) -> tuple[Trigger, ...]:
    """What was held back and would be honoured now: a call in flight gives way to a changed goal alone."""
    if not state.held_back or closed_by(config, state) is not None:
        return ()
    if signals.in_flight:
        return tuple(name for name in state.held_back if name == "goal")
    return state.held_back


def _take_in(config: ControllerConfig, state: ControllerState, signals: Signals) -> ControllerState:
    outcome = signals.outcome
    since_change, latencies = state.since_change, state.latencies_ms
    if outcome is not None:
        latencies = (*latencies[-RECENT_LATENCIES + 1 :], outcome.latency_ms)
        if outcome.changed:
            since_change = state.t - outcome.t
    failures = state.failures
    if signals.succeeded:
        failures = 0
    if signals.failed:
        failures += 1
    stalled = state.stalled
    if signals.progress is not None:
        # NaN is no progress either.
        stalled = (*stalled, not signals.progress >= config.progress_epsilon)[-config.window :]
    needed = config.deadlock_evidence or config.window
    return replace(
        state,
        since_change=since_change,
        failures=failures,
        stalled=stalled,
        deadlocked=signals.deadlock or sum(stalled) >= needed,
        latencies_ms=latencies,
    )
