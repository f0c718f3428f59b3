"""The predictors that come with the package: for the right model, on permissive data, and picked up."""

from __future__ import annotations

import pytest
from safetensors import safe_open

from brace.erecap import pruning_layers
from brace.erecap.models import LINES, SMOLLM2, TOKENS, own_predictor
from brace.erecap.scorers import Predictor
from brace.planners.local import EMBEDDED

SHIPPED = [(SMOLLM2, TOKENS, 30, 576), (str(EMBEDDED), TOKENS, 12, 320), (str(EMBEDDED), LINES, 12, 320)]


@pytest.mark.parametrize(("model", "file", "depth", "width"), SHIPPED)
def test_it_is_found_and_fits_its_model(model: str, file: str, depth: int, width: int) -> None:
    path = own_predictor(model, file)
    assert path is not None
    predictor = Predictor(path)
    assert predictor.lines == (file == LINES)
    assert predictor.layers == (pruning_layers(depth)[-1:] if predictor.lines else pruning_layers(depth))
    assert (predictor.model, predictor.width) == ("llama", width)
    assert path.stat().st_size < 4_000_000


@pytest.mark.parametrize(("model", "file", "depth", "width"), SHIPPED)
def test_it_says_what_it_was_made_of_and_nothing_of_that_forbids_its_use(
    model: str, file: str, depth: int, width: int
) -> None:
    path = own_predictor(model, file)
    assert path is not None
    with safe_open(str(path), framework="pt") as opened:
        card = opened.metadata()
    assert card["labels"] == "saliency"
    assert card["data"]
    licences = dict(part.split(": ") for part in card["licences"].split("; "))
    assert licences
    assert "alpaca" not in licences
    assert not any("NC" in licence for licence in licences.values())
    assert (path.parent / "README.md").read_text(encoding="utf-8").count(file) >= 1
