"""A planner: it is shown a prompt and writes a plan, piece by piece, until its time is over.

brace run rehearsal -n 1 --import examples/plugins/planner.py -s planner=steady
"""

import re
from dataclasses import dataclass

from brace.context import WordTokenizer
from brace.planners import Planner
from brace.registry import planners


@planners.register("steady")
@dataclass(eq=False)
class Steady(Planner):
    """Goes on at one speed."""

    name = "steady"
    speed: float = 0.8
    """Of a perfect plan's, 0 to 1."""

    def __post_init__(self):
        self.tokenizer = WordTokenizer()

    def stream(self, prompt, limits):
        """Two skills, one after the other."""
        gap = re.findall(r"gap (-?\d+)", prompt.text)[-1]
        for piece in ("clear(); ", f"advance(full, {int(gap) // 500}, 0, 0, {self.speed})"):
            if limits.expired():
                return
            yield piece
