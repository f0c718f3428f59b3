"""Who writes the plan. Importing this registers our own planners."""

from brace.planners import fakes
from brace.planners.base import Limits, LineSpan, Planner, Prompt, Usage, Vocabulary
from brace.planners.function import FunctionPlanner
from brace.planners.local import EmbeddedPlanner, TransformersPlanner
from brace.planners.openai import OpenAIPlanner
from brace.planners.reference import MemorisedPlanner, ReaderPlanner, TruthPlanner

__all__ = [
    "EmbeddedPlanner",
    "FunctionPlanner",
    "Limits",
    "LineSpan",
    "MemorisedPlanner",
    "OpenAIPlanner",
    "Planner",
    "Prompt",
    "ReaderPlanner",
    "TransformersPlanner",
    "TruthPlanner",
    "Usage",
    "Vocabulary",
    "fakes",
]
