"""The controller's knobs, checked when they are set."""

from __future__ import annotations

import math
from dataclasses import dataclass

from brace.controller.signals import OVERRIDES, Override
from brace.controller.triggers import TRIGGERS
from brace.errors import ConfigError, UnknownNameError
from brace.registry import triggers


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """When to replan (section 4 of the design). All windows count control steps."""

    cooldown: int = 0
    """δ: the fewest steps between two calls."""
    commit: int = 0
    """ω: the fewest steps a changed plan lives."""
    triggers: tuple[str, ...] = TRIGGERS
    """Which triggers are evaluated at all, by name."""
    period: int | None = None
    """Steps between periodic triggers; None switches them off."""
    failure_repeat: int = 1
    """Consecutive failures that make a `failure` trigger."""
    divergence_limit: float | None = None
    """A divergence above this is a trigger; None switches it off."""
    window: int = 5
    """w: the steps over which evidence of deadlock is kept."""
    deadlock_evidence: int | None = None
    """z: steps without progress within the window that make a `deadlock`; None means all of them."""
    progress_epsilon: float = 1e-9
    """Progress below this counts as none."""
    overrides: tuple[Override, ...] = OVERRIDES
    """What may bypass the gate."""
    override_failures: int = 3
    """f: consecutive failures that bypass the gate."""
    relax_budget: float = 1.5
    """γ: the budget's growth with each override in a row."""
    relax_slo: float = 1.25
    """s: the SLO's growth with each override in a row."""
    budget_max: int | None = None
    """The relaxed budget's ceiling; None means none."""
    slo_max_ms: float | None = None
    """The relaxed SLO's ceiling; None means none."""
    clean_window: int = 20
    """Steps without an override after which the budget falls back by one rung."""

    def __post_init__(self) -> None:
        for name in ("cooldown", "commit"):
            self._require(getattr(self, name) >= 0, name, "must be 0 or more steps")
        for name in ("period", "budget_max", "deadlock_evidence"):
            value = getattr(self, name)
            self._require(value is None or value >= 1, name, "must be 1 or more, or left out")
        for name in ("failure_repeat", "window", "override_failures", "clean_window"):
            self._require(getattr(self, name) >= 1, name, "must be 1 or more")
        for name in ("relax_budget", "relax_slo"):
            self._require(1 <= getattr(self, name) < math.inf, name, "must be 1 (no relaxing) or more")
        self._require(self.slo_max_ms is None or self.slo_max_ms > 0, "slo_max_ms", "must be > 0")
        self._require(
            self.override_failures >= self.failure_repeat, "override_failures",
            f"cannot be less than failure_repeat = {self.failure_repeat}, which comes first",
        )  # fmt: skip
        limit = self.divergence_limit
        self._require(limit is None or limit >= 0, "divergence_limit", "must be 0 or more, or left out")
        self._require(
            self.deadlock_evidence is None or self.deadlock_evidence <= self.window,
            "deadlock_evidence", f"cannot exceed the window of {self.window} steps",
        )  # fmt: skip
        for name in self.triggers:
            triggers.get(name)
        for cause in self.overrides:
            if cause not in OVERRIDES:
                raise UnknownNameError("override", cause, OVERRIDES)

    def _require(self, holds: bool, name: str, rule: str) -> None:
        if not holds:
            raise ConfigError(f"controller.{name} = {getattr(self, name)!r}: {rule}")
