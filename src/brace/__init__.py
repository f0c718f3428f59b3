"""BRACE: the layer between a robot's control loop and its LLM planner.

It decides at every step whether to replan, how many tokens the planner may read and by when it must answer;
shortens the context to that budget, enforces the deadline, falls back when it is missed, and accounts for
every phase of every call. Start with `Agent`.
"""

from brace.callpath import PlannerPool
from brace.context import HfTokenizer, Segment
from brace.controller import ControllerConfig
from brace.errors import BraceError
from brace.loop.agent import Agent, AgentStep
from brace.plan import Arg, Plan, Skill, SkillSet

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
