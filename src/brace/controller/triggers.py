"""Reasons to replan: one table, and a registry for triggers of your own.

triggers.add("battery", Trigger(lambda config, state, signals: signals.readings.get("battery", 1) < 0.2))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from brace.controller.signals import ControllerState, Signals
from brace.registry import triggers

if TYPE_CHECKING:
    from brace.controller.config import ControllerConfig


@dataclass(frozen=True, slots=True)
class Trigger:
    """When it fires. Pure: the same arguments give the same answer."""

    fires: Callable[[ControllerConfig, ControllerState, Signals], bool]
    """Asked at every step, after the signals were taken into the state."""
    event: bool = False
    """Its reason is said in one step only. If it is not honoured then, it is raised again in the first step
    in which it would be. The others last as long as their reason does, or come again."""
    doc: str = ""
    """For lists."""


TABLE = {
    "periodic": Trigger(
        lambda config, state, _: config.period is not None and state.t % config.period == 0,
        doc="every `controller.period` steps",
    ),
    "failure": Trigger(
        lambda config, state, signals: signals.failed and state.failures >= config.failure_repeat,
        event=True,
        doc="a skill failed or a plan was refused, `controller.failure_repeat` times in a row",
    ),
    "divergence": Trigger(
        lambda config, _, signals: (
            config.divergence_limit is not None and signals.divergence > config.divergence_limit
        ),
        event=True,
        doc="the world is not as the plan expects, by more than `controller.divergence_limit`",
    ),
    "hazard": Trigger(lambda _config, _, signals: signals.hazard is not None, doc="something is dangerous"),
    "deadlock": Trigger(
        lambda _config, state, _: state.deadlocked,
        doc="no progress in `controller.deadlock_evidence` of the last `controller.window` steps",
    ),
    "goal": Trigger(lambda _config, _, signals: signals.goal_changed, event=True, doc="the goal changed"),
    "exhausted": Trigger(lambda _config, _, signals: signals.exhausted, doc="nothing is left of the plan"),
}

TRIGGERS = tuple(TABLE)
"""The names of our own, in the order in which they are listed."""

for _name, _trigger in TABLE.items():
    triggers.add(_name, _trigger)
