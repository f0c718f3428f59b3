"""BRACE: the layer between a robot's control loop and its LLM planner.

It decides at every step whether to replan, how many tokens the planner may read and by when it must answer;
shortens the context to that budget, enforces the deadline, falls back when it is missed, and accounts for
every phase of every call. Start with `Agent`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brace.context import HfTokenizer, Segment
    from brace.controller import ControllerConfig
    from brace.errors import BraceError
    from brace.loop.agent import Agent, AgentStep
    from brace.plan import Arg, Plan, Skill, SkillSet
    from brace.planners import PlannerPool

__version__ = "0.1.0"
__all__ = [
    "Agent",
    "AgentStep",
    "Arg",
    "BraceError",
    "ControllerConfig",
    "HfTokenizer",
    "Plan",
    "PlannerPool",
    "Segment",
    "Skill",
    "SkillSet",
    "__version__",
]

_HOMES = {
    "Agent": "brace.loop.agent",
    "AgentStep": "brace.loop.agent",
    "Arg": "brace.plan",
    "BraceError": "brace.errors",
    "ControllerConfig": "brace.controller",
    "HfTokenizer": "brace.context",
    "Plan": "brace.plan",
    "PlannerPool": "brace.planners",
    "Segment": "brace.context",
    "Skill": "brace.plan",
    "SkillSet": "brace.plan",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that one room does not drag in the whole house."""
    if name not in _HOMES:
        raise AttributeError(f"module 'brace' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
