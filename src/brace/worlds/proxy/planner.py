"""The symbolic planner of the proxy world: reads the last action line, writes a plan.

The quality it writes follows the authors' proxy: it falls with the share of the context that was cut, with
the kind of call, and with the way the context was cut. It is a model of a reader, not a reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from brace.context import PromptTemplate, WordTokenizer
from brace.planners.base import Limits, Planner, Prompt, Vocabulary
from brace.worlds.proxy.world import ProxyWorld

FULL = PromptTemplate("You plan for a robot. Write the full plan, nothing else.\n{skills}{context}Plan:\n")
"""The template of calls that also clear the conflict. As long as the usual one: budgets mean the same."""
_ASKED_IN_FULL = "Write the full plan"
_ACTION = re.compile(r"\[action (\d+)\] gap (-?\d+) since (-?\d+)")
_BY_CUT = {"recency": 0.92, "structured": 0.90, "random": 0.85}
_NO_PROGRESS = 200
"""In ten thousandths: less than this since the last plan, and the new plan is another one."""


@dataclass(eq=False)
class ProxyPlanner(Planner):
    """Instant and deterministic. Asked for the full plan (`proxy-full`), it also clears the conflict."""

    name = "proxy-symbolic"
    cut_by: Literal["recency", "structured", "random"] | None = None
    """How the context is cut, if by one of those that the authors' reader understands less well."""

    def __post_init__(self) -> None:
        self.tokenizer = WordTokenizer()
        self._world: ProxyWorld | None = None

    def bind(self, vocabulary: Vocabulary) -> None:
        """The proxy knows how much it has told; other worlds are read as if nothing had been cut."""
        self._world = vocabulary if isinstance(vocabulary, ProxyWorld) else None
        around = FULL.with_skills(vocabulary.skills.describe())
        self._around = self.tokenizer.count(around.render([]))

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """The whole plan in one piece."""
        found = _ACTION.findall(prompt.text)
        step, gap, since = (int(number) for number in found[-1]) if found else (0, 0, 0)
        full = _ASKED_IN_FULL in prompt.text
        quality = (
            (1.0 if full else 0.9) * (0.7 + 0.3 * self._share(prompt)) * _BY_CUT.get(self.cut_by or "", 1.0)
        )
        mode = "full" if full else "pruned"
        attempt = step if since < _NO_PROGRESS else 0
        advance = f"advance({mode}, {gap // 500}, {prompt.tokens // 50}, {attempt}, {quality:.4f})"
        yield f"clear(); {advance}" if full else advance

    def _share(self, prompt: Prompt) -> float:
        """How much of what could be told is left in the prompt."""
        if self._world is None:
            return 1.0
        return prompt.tokens / (self._around + self._world.told_tokens)
