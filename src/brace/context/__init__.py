"""What the planner could be told: typed segments, the growing buffer, templates, token counting."""

from brace.context.buffer import ContextBuffer
from brace.context.growth import Growth, fit_growth
from brace.context.segments import Kind, Line, Segment
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
