"""The controller's memory: a few counters and the last `w` steps, whatever the episode's length."""

from __future__ import annotations

import math
from dataclasses import dataclass

from brace.controller.signals import Trigger

RECENT_LATENCIES = 32
"""How many past latencies a budget policy may look at."""


@dataclass(frozen=True, slots=True)
class ControllerState:
    """Immutable: a step makes a new one. Before the first call Δ = κ = ∞, so the first plan is admitted."""

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
    held_back: tuple[Trigger, ...] = ()
    """Events no call was made for yet."""
    rung: int = 0
    """k: how far the budget is relaxed."""
    clean: int = 0
    """Steps since the last override or the last fall of a rung."""
    latencies_ms: tuple[float, ...] = ()
    """The most recent calls' latencies, oldest first."""
