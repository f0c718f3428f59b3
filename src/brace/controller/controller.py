"""The controller: a pure function of (config, state, inputs). No clock, no random source, no I/O."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from brace.controller.budgets import BudgetPolicy
from brace.controller.config import ControllerConfig
from brace.controller.gate import advance, judge, relax
from brace.controller.signals import Budget, Decision, Signals, Trigger, Verdict
from brace.controller.state import ControllerState
from brace.controller.triggers import observe

S = TypeVar("S")


class Rules(Protocol, Generic[S]):
    """Three pure steps, kept apart so that the loop can time each of them.

    `observe` takes signals into the state and names the triggers; `judge` answers them; `spend` picks
    the budget of an admitted call; `advance` makes the state of the next step.
    """

    def start(self) -> S:
        """The state before the first step."""
        ...

    def observe(self, state: S, signals: Signals) -> tuple[S, tuple[Trigger, ...]]:
        """`trigger_eval`."""
        ...

    def judge(self, state: S, triggers: tuple[Trigger, ...], signals: Signals) -> Verdict:
        """`stability_gate`."""
        ...

    def spend(self, state: S, triggers: tuple[Trigger, ...], verdict: Verdict) -> Budget:
        """`budget_select`."""
        ...

    def advance(self, state: S, verdict: Verdict) -> S:
        """The next step's state."""
        ...


class Controller:
    """BRACE's rules: Eq. 1 with windows in steps, overrides, and the relaxing ladder."""

    def __init__(self, config: ControllerConfig, policy: BudgetPolicy) -> None:
        self.config = config
        self.policy = policy

    def start(self) -> ControllerState:
        """Δ = κ = ∞: the first plan is always admitted."""
        return ControllerState()

    def observe(
        self, state: ControllerState, signals: Signals
    ) -> tuple[ControllerState, tuple[Trigger, ...]]:
        """Take the signals in and name the triggers they raise."""
        return observe(self.config, state, signals)

    def judge(self, state: ControllerState, triggers: tuple[Trigger, ...], signals: Signals) -> Verdict:
        """Honour the triggers or say why not."""
        return judge(self.config, state, triggers, signals)

    def spend(self, state: ControllerState, triggers: tuple[Trigger, ...], verdict: Verdict) -> Budget:
        """The policy's budget, relaxed by the ladder (this override included)."""
        budget = self.policy.select(triggers, state, verdict.override)
        return relax(self.config, budget, state.rung + (verdict.override is not None))

    def advance(self, state: ControllerState, verdict: Verdict) -> ControllerState:
        """Tick."""
        return advance(self.config, state, verdict)


def decide(rules: Rules[S], state: S, signals: Signals, t: int) -> tuple[Decision, S]:
    """One whole step: what the loop does, without its timers."""
    state, triggers = rules.observe(state, signals)
    verdict = rules.judge(state, triggers, signals)
    budget = rules.spend(state, triggers, verdict) if verdict.replan else None
    return Decision(t, triggers, verdict, budget), rules.advance(state, verdict)
