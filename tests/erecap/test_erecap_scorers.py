"""Every registered scorer in one matrix; the ones with a formula against that formula."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest
import torch
from erecap_kit import (
    FAMILIES,
    LAYERS,
    RATIO,
    FakeScorer,
    engine_of,
    kept_of,
    model_of,
    padded,
    row,
    scorer_of,
    text,
)
from torch import Tensor

from brace.erecap import Backbone, Engine
from brace.erecap.scorers import Attention, GradHidden, ScoreInput, Scorer
from brace.errors import BraceError, ConfigError
from brace.registry import scorers

NAMES = ["attention", "grad-hidden", "head-tail", "hidden-norm", "predictor", "random", "recency"]
each_scorer = pytest.mark.parametrize("kind", NAMES)
each_family = pytest.mark.parametrize("name", FAMILIES)


class Spy(Scorer):
    """Passes everything on and remembers the scores by layer, in the input's columns."""

    name = "spy"

    def __init__(self, inner: Scorer) -> None:
        self.inner, self.seen = inner, {}

    def check(self, backbone: Backbone) -> None:
        self.inner.check(backbone)

    def prepare(self, backbone: Backbone, ids: Tensor, valid: Tensor) -> None:
        self.inner.prepare(backbone, ids, valid)

    def score(self, given: ScoreInput) -> Tensor:
        scores = self.inner.score(given)
        self.seen[given.layer] = (scores.clone(), given.positions.clone(), given.valid.clone())
        return scores

    def by_position(self, layer: int, index: int = 0) -> dict[int, float]:
        scores, positions, valid = (part[index] for part in self.seen[layer])
        return dict(zip(positions[valid].tolist(), scores[valid].tolist(), strict=True))


def test_the_matrix_holds_every_registered_scorer() -> None:
    assert scorers.names() == NAMES


@each_scorer
def test_a_scorer_s_options_are_its_fields(kind: str) -> None:
    made = scorers.get(kind)
    assert dataclasses.is_dataclass(made)
    assert made.__hash__ is object.__hash__, "compared by identity"
    options = {one.name for one in dataclasses.fields(made) if one.init}
    assert options == set(inspect.signature(made).parameters)


@each_family
@each_scorer
def test_scores_are_finite_repeatable_and_the_same_in_any_company(kind: str, name: str) -> None:
    model = model_of(name)
    spy = Spy(scorer_of(kind, model))
    engine = Engine(model, spy)
    rows = [text(58), text(37), text(46)]
    alone = []
    for one in rows:
        prefill = engine.prefill(row(one), keep=RATIO)
        lengths = [int(layer.sum()) for layer in prefill.survivors]
        assert lengths == prefill.schedules[0].lengths()
        alone.append(([layer[0] for layer in prefill.survivors], {n: spy.by_position(n) for n in (3, 5)}))
    fresh = Spy(scorer_of(kind, model))
    Engine(model, fresh).prefill(row(rows[-1]), keep=RATIO)
    assert {n: fresh.by_position(n) for n in (3, 5)} == alone[-1][1]
    for side in ("left", "right"):
        ids, mask = padded(rows, side)
        batch = engine.prefill(ids, mask, keep=RATIO)
        for index, (survivors, scores) in enumerate(alone):
            assert all(map(torch.equal, kept_of(batch, index, mask), survivors))
            for layer in (3, 5):
                assert spy.by_position(layer, index) == pytest.approx(scores[layer], rel=1e-4, abs=1e-5)
                assert torch.isfinite(torch.tensor(list(scores[layer].values()))).all()


def entering(name: str, layer: int, ids: list[int]) -> ScoreInput:
    """What a scorer is given before a layer, from transformers' own forward."""
    model = model_of(name)
    backbone = Backbone(model)
    with torch.no_grad():
        hidden = model(row(ids), output_hidden_states=True, use_cache=False).hidden_states[layer]
    places = torch.arange(len(ids))[None]
    valid = torch.ones_like(places, dtype=torch.bool)
    return ScoreInput(layer, hidden, places, valid, places, backbone.rotate(hidden, places), backbone)


@each_family
@pytest.mark.parametrize("window", [1, 16])
def test_attention_scores_are_what_the_last_tokens_look_at(name: str, window: int) -> None:
    ids = text(53)
    with torch.no_grad():
        looks = model_of(name, "eager")(row(ids), output_attentions=True, use_cache=False).attentions
    for layer in (3, 4):
        expected = looks[layer][0, :, -window:].mean(0).sum(0)
        with torch.no_grad():
            got = Attention(window).score(entering(name, layer, ids))[0].double()
        # The scale is free (a sum or a mean over the window): the shares are not.
        assert torch.allclose(got / got.sum(), expected / expected.sum(), atol=1e-5)


@each_family
def test_grad_hidden_is_the_gradient_of_the_next_token_loss_times_the_state(name: str) -> None:
    model, ids = model_of(name), row(text(41))
    with torch.enable_grad():
        out = model(ids, output_hidden_states=True, use_cache=False)
        logits = out.logits[0, :-1].log_softmax(-1)
        loss = -logits[torch.arange(40), ids[0, 1:]].sum()
        states = out.hidden_states[:LAYERS]
        slopes = torch.autograd.grad(loss, states)
    scorer = GradHidden()
    scorer.prepare(Backbone(model), ids, torch.ones_like(ids, dtype=torch.bool))
    for layer in (0, 3, 7):
        expected = (slopes[layer] * states[layer]).sum(-1).abs()[0].detach()
        got = scorer.score(entering(name, layer, ids[0].tolist()))[0].double()
        assert (got - expected).abs().max() <= 1e-4 * expected.max()


def test_grad_hidden_costs_nothing_when_nothing_is_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of("llama", scorer=GradHidden())
    passes = []
    run = engine.backbone.run_layer

    def counted(index: int, *rest: Any) -> Tensor:
        passes.append(index)
        return run(index, *rest)

    monkeypatch.setattr(engine.backbone, "run_layer", counted)
    engine.prefill(row(text(30)))
    assert passes == list(range(LAYERS))


def test_simple_scorers_rank_as_they_say() -> None:
    given = entering("llama", 3, text(9))
    assert scorers.create("recency").score(given)[0].argsort().tolist() == list(range(9))
    middle_out = scorers.create("head-tail").score(given)[0]
    assert middle_out.tolist() == [4, 3, 2, 1, 0, 1, 2, 3, 4]
    norms = scorers.create("hidden-norm").score(given)[0].double()
    assert torch.allclose(norms, given.hidden[0].norm(dim=-1), rtol=1e-5)


def test_random_scores_follow_the_seed_and_change_with_the_layer() -> None:
    third, fifth = entering("llama", 3, text(40)), entering("llama", 5, text(40))
    one, same, other = (scorers.create("random", {"seed": seed}) for seed in (1, 1, 2))
    assert torch.equal(one.score(third), same.score(third))
    assert not torch.equal(one.score(third), other.score(third))
    assert not torch.equal(one.score(third), one.score(fifth))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("by_segment", [False, True])
def test_scores_that_are_not_numbers_are_an_error_and_leave_nothing_behind(
    bad: float, by_segment: bool
) -> None:
    worth = [float(place) for place in range(60)]
    worth[30] = bad
    scorer = FakeScorer(worth)
    engine = Engine(model_of("llama"), scorer)
    segments = row([place // 5 for place in range(60)]) if by_segment else None
    with pytest.raises(BraceError, match="finite"):
        engine.prefill(row(text(60)), keep=RATIO, segments=segments)
    scorer.worth[30] = 30.0
    again = engine.prefill(row(text(60)), keep=RATIO, segments=segments)
    clean = Engine(model_of("llama"), FakeScorer(range(60)))
    expected = clean.prefill(row(text(60)), keep=RATIO, segments=segments)
    assert torch.equal(again.context.logits, expected.context.logits)


def test_a_window_of_no_tokens_is_refused() -> None:
    with pytest.raises(ConfigError, match="window"):
        scorers.create("attention", {"window": 0})
