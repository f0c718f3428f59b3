"""The symbolic reference planner of the proxy world: reads the last action line, writes a plan.

The quality it writes follows the paper's proxy: it falls with the share of the context that was cut, with
the mode, and with the way the context was cut. It is a model of a reader, not a reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from brace.context import WordTokenizer
from brace.planners.base import Limits, Planner, Prompt
from brace.registry import planners

_ACTION = re.compile(r"\[action (\d+)\] gap (-?\d+) since (-?\d+)")
_BY_COMPRESSOR = {"recency": 0.92, "structured": 0.90, "random": 0.85}
_NO_PROGRESS = 200
"""In ten thousandths: less than this since the last plan, and the new plan is another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyPrompt(Prompt):
    """A prompt, and how it was made: what the quality of the proxy's plans depends on."""

    tokens_in: int
    """What it would have been uncut."""
    mode: str
    compressor: str


@planners.register("proxy-symbolic")
class ProxyPlanner(Planner):
    """Instant and deterministic. A `full` call also clears the conflict.

    A prompt that does not say how it was made counts as a whole one in `full`.
    """

    name = "proxy-symbolic"
    tokenizer = WordTokenizer()

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        """The whole plan in one piece."""
        if not isinstance(prompt, ProxyPrompt):
            prompt = ProxyPrompt(
                prompt.text, prompt.tokens, tokens_in=prompt.tokens, mode="full", compressor="none"
            )
        found = _ACTION.findall(prompt.text)
        step, gap, since = (int(number) for number in found[-1]) if found else (0, 0, 0)
        share = prompt.tokens / max(1, prompt.tokens_in)
        full = prompt.mode == "full"
        quality = (1.0 if full else 0.9) * (0.7 + 0.3 * share) * _BY_COMPRESSOR.get(prompt.compressor, 1.0)
        mode = "full" if full else "pruned"
        attempt = step if since < _NO_PROGRESS else 0
        advance = f"advance({mode}, {gap // 500}, {prompt.tokens // 50}, {attempt}, {quality:.4f})"
        yield f"clear(); {advance}" if full else advance
