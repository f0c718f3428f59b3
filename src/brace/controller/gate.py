"""The stability gate (Eq. 1), what may bypass it, and the budget ladder an override climbs."""

from __future__ import annotations

from dataclasses import replace

from brace.controller.config import ControllerConfig
from brace.controller.signals import OVERRIDES, Budget, GateReason, Override, Signals, Trigger, Verdict
from brace.controller.state import ControllerState

MOST_RUNGS = 32
"""Overrides in a row beyond this relax nothing further: γ^k must stay a number."""


def closed_by(config: ControllerConfig, state: ControllerState) -> GateReason | None:
    """Which window keeps the gate closed; None: it is open."""
    if state.since_call < config.cooldown:
        return "cooldown"
    if state.since_change < config.commit:
        return "commit"
    return None


def judge(
    config: ControllerConfig, state: ControllerState, triggers: tuple[Trigger, ...], signals: Signals
) -> Verdict:
    """Replan iff a trigger fired and Δ ≥ δ and κ ≥ ω, or an override bypasses the gate.

    While a call runs the answer is no, unless a goal change (through the gate) or a critical hazard
    cancels that call for a new one.
    """
    if not triggers:
        return Verdict(replan=False)
    closed = closed_by(config, state)
    cause = _override(config, state, triggers, signals)
    if signals.in_flight:
        return _judge_in_flight(triggers, closed, cause)
    if closed is None:
        return Verdict(replan=True)
    if cause is not None:
        return Verdict(replan=True, override=cause)
    return Verdict(replan=False, gate=closed)


def _judge_in_flight(
    triggers: tuple[Trigger, ...], closed: GateReason | None, cause: Override | None
) -> Verdict:
    if cause == "hazard":
        return Verdict(replan=True, override=cause if closed else None, cancel="hazard")
    if "goal" in triggers and closed is None:
        return Verdict(replan=True, cancel="goal")
    return Verdict(replan=False, gate="in_flight")


def advance(config: ControllerConfig, state: ControllerState, verdict: Verdict) -> ControllerState:
    """The state after the verdict: counters tick, the ladder climbs or falls."""
    rung, clean = state.rung, state.clean + 1
    failures = state.failures
    if verdict.override is not None:
        rung, clean = min(rung + 1, MOST_RUNGS), 0
        if verdict.override == "failures":
            failures = 0
    elif clean >= config.clean_window:
        rung, clean = max(0, rung - 1), 0
    return replace(
        state,
        t=state.t + 1,
        since_call=1 if verdict.replan else state.since_call + 1,
        since_change=state.since_change + 1,
        failures=failures,
        # A call answers the evidence: what was seen under the old plan says nothing about the new one.
        stalled=() if verdict.replan else state.stalled,
        held_back=() if verdict.replan else state.held_back,
        rung=rung,
        clean=clean,
    )


def relax(config: ControllerConfig, budget: Budget, rung: int) -> Budget:
    """The budget on rung k: `min(B_max, B·γ^k)` and `min(SLO_max, SLO·s^k)`, never below what it was."""
    if rung == 0:
        return budget
    tokens, slo = budget.tokens, budget.slo_ms
    if tokens is not None:
        grown = int(tokens * config.relax_budget**rung)
        tokens = max(tokens, grown if config.budget_max is None else min(config.budget_max, grown))
    if slo is not None:
        longer = slo * config.relax_slo**rung
        slo = max(slo, longer if config.slo_max_ms is None else min(config.slo_max_ms, longer))
    return Budget(budget.mode, tokens, slo)


def _override(
    config: ControllerConfig, state: ControllerState, triggers: tuple[Trigger, ...], signals: Signals
) -> Override | None:
    causes: dict[Override, bool] = {
        "hazard": signals.hazard == "critical" and "hazard" in triggers,
        "deadlock": state.deadlocked and "deadlock" in triggers,
        "failures": state.failures >= config.override_failures and "failure" in triggers,
    }
    return next((cause for cause in OVERRIDES if cause in config.overrides and causes[cause]), None)
