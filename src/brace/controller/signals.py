"""What the controller is handed at a step, what it answers, and what it remembers: plain values only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

GateReason = Literal["cooldown", "commit", "in_flight"]
Override = Literal["hazard", "deadlock", "failures"]
Cancel = Override | Literal["goal"]
Severity = Literal["warning", "critical"]

OVERRIDES: tuple[Override, ...] = ("hazard", "deadlock", "failures")
RECENT_LATENCIES = 32
"""How many past latencies a budget policy may look at."""


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
    """What happened since the last step. Everything is optional: silence means "nothing".

    A world or a user's loop tells all but the last three fields; the loop of BRACE adds those.
    """

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
    readings: Mapping[str, float] = field(default_factory=dict)
    """Numbers for triggers of your own, by name: a battery's charge, say."""
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
class Decision:
    """What the controller says at step `t`: replan or not, why, and what a call may spend."""

    t: int
    triggers: tuple[str, ...] = ()
    replan: bool = False
    """A call is to be made now."""
    gate: GateReason | None = None
    """Why a trigger was not honoured."""
    override: Override | None = None
    """What bypassed the gate (only when the gate alone would have refused)."""
    cancel: Cancel | None = None
    """Why the call in flight is to be cancelled."""
    budget: Budget | None = None
    """Set when `replan`."""

    @property
    def suppressed(self) -> bool:
        """A trigger fired and was not honoured."""
        return self.gate is not None


@dataclass(frozen=True, slots=True)
class ControllerState:
    """A few counters and the last `w` steps, whatever the episode's length. A step makes a new one.

    Before the first call Δ = κ = ∞, so the first plan is admitted.
    """

    t: int = 0
    """The step to be decided next."""
    since_call: float = math.inf
    """Δ: steps since the last call."""
    since_change: float = math.inf
    """κ: steps since the plan last changed."""
    failures: int = 0
    """Consecutive failures since the last success or failure override."""
    stalled: tuple[bool, ...] = ()
    """For each of the last `w` steps that could have moved: whether it made no progress."""
    deadlocked: bool = False
    """Whether that evidence, or the world itself, says deadlock."""
    held_back: tuple[str, ...] = ()
    """Events no call was made for yet."""
    rung: int = 0
    """k: how far the budget is relaxed."""
    clean: int = 0
    """Steps since the last override or the last fall of a rung."""
    latencies_ms: tuple[float, ...] = ()
    """The most recent calls' latencies, oldest first."""
