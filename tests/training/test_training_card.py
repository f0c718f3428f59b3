"""The model card says what the model learnt from, for how long, and how well."""

from __future__ import annotations

from brace.training.planner import Recipe
from brace.training.shipping import model_card


def test_it_names_worlds_amounts_and_scores() -> None:
    scores = {("babyai-v1", 512): 0.975, ("babyai-v1", 2048): 0.9, ("lift-v1", 512): 1.0}
    card = model_card(Recipe(), 7500, 1230.0, {"babyai-v1": 1152, "lift-v1": 40}, scores)
    assert "20.5 minutes on 983 M" in card
    assert "| babyai-v1 | 1152 | 98 % | 90 % |" in card
    assert "| lift-v1 | 40 | 100 % | – |" in card
