"""What the controller is handed at a step, and what it answers: plain values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Trigger = Literal["periodic", "failure", "divergence", "hazard", "deadlock", "goal", "exhausted"]
GateReason = Literal["cooldown", "commit", "in_flight"]
Override = Literal["hazard", "deadlock", "failures"]
Severity = Literal["warning", "critical"]

TRIGGERS: tuple[Trigger, ...] = (
    "periodic", "failure", "divergence", "hazard", "deadlock", "goal", "exhausted",
)  # fmt: skip
OVERRIDES: tuple[Override, ...] = ("hazard", "deadlock", "failures")


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How a call ended, told to the controller at the next step."""

    t: int
    """The step at which it ended."""
    changed: bool = False
    """Whether an accepted plan replaced the old one by a different one."""
    latency_ms: float = 0.0
    missed: bool = False


@dataclass(frozen=True, slots=True)
class Signals:
    """What happened in the world since the last step. Everything is optional: silence means "nothing"."""

    failed: bool = False
    """An action or skill ended in failure, or a plan was refused."""
    succeeded: bool = False
    """An action or skill ended well: ends a row of consecutive failures."""
    progress: float | None = None
    """How much nearer the goal the last step brought us; None when unknown or when held still on purpose."""
    deadlock: bool = False
    """The world itself says that we are stuck."""
    divergence: float = 0.0
    """Distance from the expected trajectory."""
    hazard: Severity | None = None
    goal_changed: bool = False
    """The goal is another one since the last step."""
    exhausted: bool = False
    """No plan, or nothing left of it."""
    in_flight: bool = False
    """A call is running."""
    outcome: CallOutcome | None = None
    """The call that ended since the last step, if any."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a call may spend. `tokens=None` means the whole context, `slo_ms=None` no target."""

    mode: str
    tokens: int | None
    slo_ms: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The gate's answer: replan or not, and why."""

    replan: bool
    gate: GateReason | None = None
    """Why a trigger was not honoured."""
    override: Override | None = None
    """What bypassed the gate (only when the gate alone would have refused)."""
    cancel: Override | Literal["goal"] | None = None
    """Why the call in flight is to be cancelled."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the controller says at step `t`."""

    t: int
    triggers: tuple[Trigger, ...]
    verdict: Verdict
    budget: Budget | None = None
    """Set when `replan`."""

    @property
    def replan(self) -> bool:
        """Whether a call is to be made now."""
        return self.verdict.replan

    @property
    def suppressed(self) -> bool:
        """A trigger fired and was not honoured."""
        return self.verdict.gate is not None
