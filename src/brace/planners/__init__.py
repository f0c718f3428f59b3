"""Who writes the plan. Importing this registers our own planners."""

from brace.planners import fakes
from brace.planners.base import Limits, Planner, Prompt
from brace.planners.function import FunctionPlanner
from brace.planners.proxy import ProxyPlanner

__all__ = ["FunctionPlanner", "Limits", "Planner", "Prompt", "ProxyPlanner", "fakes"]
