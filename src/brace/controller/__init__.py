"""When to replan and how much to spend. Needs nothing but the standard library."""

from brace.controller.budgets import BudgetPolicy, FixedPolicy
from brace.controller.config import ControllerConfig
from brace.controller.controller import Controller, Rules, decide
from brace.controller.signals import (
    Budget,
    CallOutcome,
    ControllerState,
    Decision,
    GateReason,
    Override,
    Severity,
    Signals,
)
from brace.controller.triggers import TRIGGERS, Trigger

__all__ = [
    "TRIGGERS",
    "Budget",
    "BudgetPolicy",
    "CallOutcome",
    "Controller",
    "ControllerConfig",
    "ControllerState",
    "Decision",
    "FixedPolicy",
    "GateReason",
    "Override",
    "Rules",
    "Severity",
    "Signals",
    "Trigger",
    "decide",
]
