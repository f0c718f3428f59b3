"""From what happened to reasons to replan."""

from __future__ import annotations

from dataclasses import replace

from brace.controller.config import ControllerConfig
from brace.controller.signals import Signals, Trigger
from brace.controller.state import RECENT_LATENCIES, ControllerState


def observe(
    config: ControllerConfig, state: ControllerState, signals: Signals
) -> tuple[ControllerState, tuple[Trigger, ...]]:
    """Take one step's signals into the state and say which triggers they raise."""
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
    return state, tuple(name for name in config.triggers if fired[name])


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
