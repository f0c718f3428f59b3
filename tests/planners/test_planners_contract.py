"""Every registered planner keeps the contract."""

from __future__ import annotations

import pytest

from brace.planners import Planner
from brace.registry import planners

OPTIONS = {"openai": {"base_url": "http://127.0.0.1:9/v1", "model": "fake"}}
LOCAL = {"transformers", "embedded"}
"""These load weights; tests/planners_local has them."""


@pytest.mark.parametrize("name", sorted(set(planners.names()) - LOCAL))
def test_every_registered_planner_keeps_the_contract(name: str) -> None:
    planner = planners.create(name, OPTIONS.get(name))
    assert isinstance(planner, Planner)
    assert planner.name.split(" ")[0] == name
    assert planner.tokenizer.count("two words") > 0
