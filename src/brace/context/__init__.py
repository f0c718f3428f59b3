"""What the planner could be told: typed segments, the growing buffer, templates, token counting."""

from brace.context.segments import ContextBuffer, Growth, Kind, Line, Segment, fit_growth
from brace.context.template import PromptTemplate, find_template, plan_template
from brace.context.tokens import HfTokenizer, Tokenizer, WordTokenizer

__all__ = [
    "ContextBuffer",
    "Growth",
    "HfTokenizer",
    "Kind",
    "Line",
    "PromptTemplate",
    "Segment",
    "Tokenizer",
    "WordTokenizer",
    "find_template",
    "fit_growth",
    "plan_template",
]
