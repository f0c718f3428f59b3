"""Budget policies: how much a call may spend, `f(τ, σ) -> (mode, B, SLO)`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from brace.controller.signals import Budget, ControllerState, Decision
from brace.errors import ConfigError, UnknownNameError
from brace.registry import budget_policies, triggers


@dataclass(frozen=True)
class BudgetPolicy(ABC):
    """Picks a mode with its budget and SLO. Pure: the same arguments give the same answer."""

    modes: Mapping[str, Budget]
    """The budget of each mode, by name."""
    mode: str = "pruned"
    """The mode of an ordinary call."""
    escalated: str = "full"
    """The mode of a call caused by an override or by a trigger in `escalate`."""
    escalate: tuple[str, ...] = ()
    """Triggers whose calls get the escalated mode."""

    def __post_init__(self) -> None:
        # Nobody who has one mode only should have to name another: the default may be missing.
        needs_escalated = self.escalate or self.escalated != "full"
        for name in (self.mode, *([self.escalated] if needs_escalated else [])):
            if name not in self.modes:
                raise UnknownNameError("mode", name, self.modes)
        for trigger in self.escalate:
            triggers.get(trigger)
        for budget in self.modes.values():
            if budget.tokens is not None and budget.tokens < 1:
                raise ConfigError(f"modes.{budget.mode}.tokens = {budget.tokens}: must be 1 or more")
            if budget.slo_ms is not None and not budget.slo_ms > 0:
                raise ConfigError(f"modes.{budget.mode}.slo_ms = {budget.slo_ms}: must be > 0")

    @abstractmethod
    def select(self, decision: Decision, state: ControllerState) -> Budget:
        """The budget of the call that was just decided."""


@budget_policies.register("fixed")
@dataclass(frozen=True)
class FixedPolicy(BudgetPolicy):
    """The paper's: one budget a mode; an override or an `escalate` trigger gets the escalated mode."""

    def select(self, decision: Decision, state: ControllerState) -> Budget:
        """The escalated mode for trouble where one is configured, else the ordinary mode."""
        trouble = decision.override is not None or any(t in self.escalate for t in decision.triggers)
        return self.modes[self.escalated if trouble and self.escalated in self.modes else self.mode]
