"""Scoring a growing text reads what is new only, and says what scoring it at once would say."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from erecap_kit import FAMILIES, LAYERS, POSITIONS, FakeScorer, model_of, scorer_of, text
from hypothesis import given, settings
from hypothesis import strategies as st

from brace.erecap import Engine, PrefixScorer, pruning_layers
from brace.errors import ConfigError

LAYER = pruning_layers(LAYERS)[-1]


def prefix(name: str = "llama", scorer: str = "predictor") -> PrefixScorer:
    model = model_of(name)
    return PrefixScorer(Engine(model, scorer_of(scorer, model)), LAYER)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_text_read_in_turns_is_scored_as_if_at_once(name: str) -> None:
    whole, grown = text(70), prefix(name)
    for end in (20, 21, 55, 70):
        found = grown.scores(whole[:end])
        at_once = prefix(name).scores(whole[:end])
        assert torch.allclose(found.double(), at_once.double(), atol=1e-5)
    assert grown.tokens_read == 15


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_only_what_follows_the_common_beginning_is_read(turns: list[tuple[int, int]]) -> None:
    grown, held = prefix(), list[int]()
    for turn, (shared, more) in enumerate(turns):
        ids = [*held[:shared], *text(more + 1, seed=turn + 3)]
        common = next((n for n, (a, b) in enumerate(zip(held, ids, strict=False)) if a != b), None)
        found = grown.scores(ids)
        assert grown.tokens_read == len(ids) - (min(len(held), len(ids)) if common is None else common)
        assert torch.allclose(found.double(), prefix().scores(ids).double(), atol=1e-5)
        held = ids


def test_a_scorer_whose_scores_cannot_be_cached_reads_all_again() -> None:
    grown, ids = prefix(scorer="attention"), text(40)
    grown.scores(ids[:30])
    assert torch.allclose(grown.scores(ids).double(), prefix(scorer="attention").scores(ids).double())
    assert grown.tokens_read == 40


def test_after_a_reading_that_broke_off_nothing_is_taken_for_read(monkeypatch: pytest.MonkeyPatch) -> None:
    grown, ids = prefix(), text(50)
    grown.scores(ids[:20])
    backbone, done = grown._engine.backbone, []
    run = backbone.run_layer

    def breaking(index: int, *rest: Any) -> Any:
        done.append(index)
        if len(done) == 3:
            raise KeyboardInterrupt
        return run(index, *rest)

    monkeypatch.setattr(backbone, "run_layer", breaking)
    with pytest.raises(KeyboardInterrupt):
        grown.scores(ids)
    monkeypatch.undo()
    assert torch.allclose(grown.scores(ids).double(), prefix().scores(ids).double(), atol=1e-5)
    assert grown.tokens_read == 30


@pytest.mark.parametrize("tokens", [0, POSITIONS + 1])
def test_what_the_model_cannot_read_is_refused(tokens: int) -> None:
    with pytest.raises(ConfigError, match=f"{tokens} tokens to score"):
        prefix().scores([5] * tokens)


def test_a_fake_scorer_is_prepared_for_the_whole_text() -> None:
    seen: list[int] = []

    class FakeCounter(FakeScorer):
        def prepare(self, backbone: Any, ids: Any, valid: Any) -> None:
            seen.append(ids.shape[1])

    one = PrefixScorer(Engine(model_of("llama"), FakeCounter([float(n) for n in range(60)])), LAYER)
    assert one.scores(text(40)).tolist() == list(range(40))
    assert seen == [40]
