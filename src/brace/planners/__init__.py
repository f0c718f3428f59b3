"""Who writes the plan. Importing this registers our own planners."""

from brace.planners import fakes
from brace.planners.base import Limits, LineSpan, Planner, Prompt, Usage
from brace.planners.function import FunctionPlanner
from brace.planners.proxy import ProxyPlanner
from brace.planners.reference import MemorisedPlanner, ReaderPlanner, TruthPlanner

__all__ = [
    "FunctionPlanner",
    "Limits",
    "LineSpan",
    "MemorisedPlanner",
    "Planner",
    "Prompt",
    "ProxyPlanner",
    "ReaderPlanner",
    "TruthPlanner",
    "Usage",
    "fakes",
]
