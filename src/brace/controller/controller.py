"""When to replan: a pure function of (config, state, inputs). No clock, no random source, no I/O."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar

from brace.controller.budgets import BudgetPolicy
from brace.controller.config import ControllerConfig
from brace.controller.signals import (
    OVERRIDES,
    RECENT_LATENCIES,
    Budget,
    Cancel,
    ControllerState,
    Decision,
    GateReason,
    Override,
    Signals,
)
from brace.controller.triggers import Trigger
from brace.registry import rules
from brace.registry import triggers as known_triggers

S = TypeVar("S")
MOST_RUNGS = 32
"""Overrides in a row beyond this relax nothing further: γ^k must stay a number."""


@dataclass(frozen=True)
class Rules(ABC, Generic[S]):
    """A whole controller: four pure steps, kept apart so that the loop can time each of them."""

    config: ControllerConfig
    policy: BudgetPolicy

    @abstractmethod
    def start(self) -> S:
        """The state before the first step."""

    @abstractmethod
    def observe(self, state: S, signals: Signals) -> tuple[S, tuple[str, ...]]:
        """`trigger_eval`: take the signals in and name the triggers they raise."""

    @abstractmethod
    def judge(self, state: S, t: int, triggers: tuple[str, ...], signals: Signals) -> Decision:
        """`stability_gate`: honour the triggers or say why not."""

    @abstractmethod
    def spend(self, state: S, decision: Decision) -> Budget:
        """`budget_select`: the budget of an admitted call."""

    @abstractmethod
    def advance(self, state: S, decision: Decision) -> S:
        """The next step's state."""


def decide(rules: Rules[S], state: S, signals: Signals, t: int) -> tuple[Decision, S]:
    """One whole step: what the loop does, without its timers."""
    state, triggers = rules.observe(state, signals)
    decision = rules.judge(state, t, triggers, signals)
    if decision.replan:
        decision = replace(decision, budget=rules.spend(state, decision))
    return decision, rules.advance(state, decision)


@rules.register("brace")
@dataclass(frozen=True)
class Controller(Rules[ControllerState]):
    """BRACE's rules: Eq. 1 with windows in steps, overrides, and the relaxing ladder."""

    def start(self) -> ControllerState:
        """Δ = κ = ∞: the first plan is always admitted."""
        return ControllerState()

    def observe(self, state: ControllerState, signals: Signals) -> tuple[ControllerState, tuple[str, ...]]:
        """Take the signals in and name the triggers they raise, those held back that are now due included."""
        state = self._take_in(state, signals)
        due = self._due(state, signals)
        triggers = tuple(
            name
            for name, trigger in self._table.items()
            if trigger.fires(self.config, state, signals) or name in due
        )
        events = (name for name in triggers if self._table[name].event and name not in state.held_back)
        return replace(state, held_back=(*state.held_back, *events)), triggers

    def judge(self, state: ControllerState, t: int, triggers: tuple[str, ...], signals: Signals) -> Decision:
        """Replan iff a trigger fired and Δ ≥ δ and κ ≥ ω, or an override bypasses the gate.

        While a call runs the answer is no, unless a goal change (through the gate) or a critical hazard
        cancels that call for a new one.
        """
        if not triggers:
            return Decision(t)
        closed = self._closed_by(state)
        cause = self._override(state, triggers, signals)
        cancel: Cancel | None = None
        if signals.in_flight:
            cancel = "hazard" if cause == "hazard" else "goal" if "goal" in triggers and not closed else None
            if cancel is None:
                return Decision(t, triggers, gate="in_flight")
        if closed is None:
            return Decision(t, triggers, True, cancel=cancel)
        if cause is not None:
            return Decision(t, triggers, True, override=cause, cancel=cancel)
        return Decision(t, triggers, gate=closed)

    def spend(self, state: ControllerState, decision: Decision) -> Budget:
        """The policy's budget on rung k of the ladder, this override included: `min(B_max, B·γ^k)` and
        `min(SLO_max, SLO·s^k)`, never below what it was."""
        budget, config = self.policy.select(decision, state), self.config
        # The override that asks now counts already: `advance` comes after the budget is chosen.
        rung = state.rung + (decision.override is not None)
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

    def advance(self, state: ControllerState, decision: Decision) -> ControllerState:
        """Counters tick, the ladder climbs or falls."""
        rung, clean = state.rung, state.clean + 1
        failures = state.failures
        if decision.override is not None:
            rung, clean = min(rung + 1, MOST_RUNGS), 0
            # Else every further failure of the same row would bypass the gate again.
            if decision.override == "failures":
                failures = 0
        elif clean >= self.config.clean_window:
            rung, clean = max(0, rung - 1), 0
        return replace(
            state,
            t=state.t + 1,
            # The call is made in this step, so at the next one it is a step old, whether it has ended or not.
            since_call=1 if decision.replan else state.since_call + 1,
            since_change=state.since_change + 1,
            failures=failures,
            # A call answers the evidence: what was seen under the old plan says nothing about the new one.
            stalled=() if decision.replan else state.stalled,
            held_back=() if decision.replan else state.held_back,
            rung=rung,
            clean=clean,
        )

    @cached_property
    def _table(self) -> dict[str, Trigger]:
        return {name: known_triggers.get(name) for name in self.config.triggers}

    def _closed_by(self, state: ControllerState) -> GateReason | None:
        """Which window keeps the gate closed; None: it is open."""
        if state.since_call < self.config.cooldown:
            return "cooldown"
        if state.since_change < self.config.commit:
            return "commit"
        return None

    def _override(
        self, state: ControllerState, triggers: tuple[str, ...], signals: Signals
    ) -> Override | None:
        causes: dict[Override, bool] = {
            "hazard": signals.hazard == "critical" and "hazard" in triggers,
            "deadlock": state.deadlocked and "deadlock" in triggers,
            "failures": state.failures >= self.config.override_failures and "failure" in triggers,
        }
        return next((cause for cause in OVERRIDES if cause in self.config.overrides and causes[cause]), None)

    def _due(self, state: ControllerState, signals: Signals) -> tuple[str, ...]:
        """What was held back and would be honoured now; a call in flight gives way to a new goal alone."""
        if not state.held_back or self._closed_by(state) is not None:
            return ()
        if signals.in_flight:
            return tuple(name for name in state.held_back if name == "goal")
        return state.held_back

    def _take_in(self, state: ControllerState, signals: Signals) -> ControllerState:
        config, outcome = self.config, signals.outcome
        since_change, latencies = state.since_change, state.latencies_ms
        if outcome is not None:
            latencies = (*latencies[-RECENT_LATENCIES + 1 :], outcome.latency_ms)
            if outcome.changed:
                # Told after it happened: the plan has changed in the step in which the call ended.
                since_change = state.t - outcome.t
        # In this order: in a step with both, the failure is the newer row's first.
        failures = 0 if signals.succeeded else state.failures
        stalled = state.stalled
        if signals.progress is not None:
            # NaN is no progress either.
            stalled = (*stalled, not signals.progress >= config.progress_epsilon)[-config.window :]
        return replace(
            state,
            since_change=since_change,
            failures=failures + signals.failed,
            stalled=stalled,
            deadlocked=signals.deadlock or sum(stalled) >= (config.deadlock_evidence or config.window),
            latencies_ms=latencies,
        )
