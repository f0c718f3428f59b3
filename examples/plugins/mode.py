"""A mode: what it may spend, what it switches on, and how its prompt is written. Configuration alone.

brace run rehearsal -n 1 --import examples/plugins/mode.py -s modes.pruned=glance
"""

from brace.context import PromptTemplate
from brace.loop.config import ModeConfig, Part
from brace.registry import modes, templates

templates.add("terse", PromptTemplate("Answer with one line of these skills.\n{skills}{context}Next:\n"))
modes.add(
    "glance",
    ModeConfig(tokens=320, slo_ms=90, compress=Part("recency", {"granularity": "token"}), template="terse"),
)
