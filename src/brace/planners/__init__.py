"""Who writes the plan. Importing this registers our own planners."""

from brace.planners import fakes
from brace.planners.base import Answer, Limits, LineSpan, Planner, Prompt, Usage, Vocabulary
from brace.planners.deadline import Deadline
from brace.planners.function import FunctionPlanner
from brace.planners.local import EmbeddedPlanner, TransformersPlanner
from brace.planners.openai import OpenAIPlanner
from brace.planners.pool import PlannerPool
from brace.planners.reference import MemorisedPlanner, ReaderPlanner, TruthPlanner

__all__ = [
    "Answer",
    "Deadline",
    "EmbeddedPlanner",
    "FunctionPlanner",
    "Limits",
    "LineSpan",
    "MemorisedPlanner",
    "OpenAIPlanner",
    "Planner",
    "PlannerPool",
    "Prompt",
    "ReaderPlanner",
    "TransformersPlanner",
    "TruthPlanner",
    "Usage",
    "Vocabulary",
    "fakes",
]
