"""Fitting: every term moves the weights, what was planted is found, a stopped training goes on the same."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from erecap_training_kit import PRUNING, fresh, frozen, item

from brace.erecap.scorers import Predictor
from brace.errors import BraceError, ConfigError
from brace.training.erecap.encoding import Item, collate
from brace.training.erecap.fitting import CURVE, Recipe, fit
from brace.training.erecap.labels import Labelled, normalised
from brace.training.erecap.losses import terms

PLANTED = 7
SMALL = Recipe(steps=6, batch_tokens=300, keeps=(0.4,))
ALONE = {
    "language": replace(SMALL, match=0.0, ranking=0.0),
    "match": replace(SMALL, language=0.0, ranking=0.0),
    "ranking": replace(SMALL, language=0.0, match=0.0),
}


def planted(seed: int) -> Labelled:
    """An item in which only one kind of token matters."""
    one = item(70, 4, seed=seed)
    ids = [9 if token == PLANTED else token for token in one.ids]
    for place in random.Random(seed).sample(range(10, 50), 3):
        ids[place] = PLANTED
    worth = torch.tensor([1.0 if token == PLANTED else 0.001 for token in ids[:70]])
    return Labelled(Item(ids, 70, one.segments, one.floor), worth.expand(len(PRUNING), -1).clone())


DATA = [planted(seed) for seed in range(40)]


def weights(predictor: Predictor) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in predictor.state_dict().items()}


@pytest.mark.parametrize("term", ALONE)
def test_each_term_alone_moves_every_layer_s_weights_and_gets_smaller(term: str, tmp_path: Path) -> None:
    model, predictor = frozen(), fresh()
    before = weights(predictor)
    # So mild a pruning that the same tokens are compared throughout.
    recipe = replace(ALONE[term], steps=40, rate=5e-3, temperatures=(0.5, 0.5), keeps=(0.8,))
    told = list(fit(model, DATA[:2], predictor, recipe, tmp_path))
    for name, value in predictor.state_dict().items():
        assert not torch.equal(value, before[name]), name
    first, last = (sum(getattr(one, term) for one in part) for part in (told[:5], told[-5:]))
    assert last < first


@pytest.mark.parametrize("term", ["match", "ranking"])
def test_a_planted_token_is_found_in_texts_never_seen(term: str, tmp_path: Path) -> None:
    model, predictor = frozen(), fresh()
    list(fit(model, DATA, predictor, replace(ALONE[term], steps=150, rate=5e-3), tmp_path))
    unseen = [planted(seed).item for seed in range(900, 910)]
    batch = collate(unseen)
    entered: dict[int, torch.Tensor] = {}
    model.read(batch.ids, entered.__setitem__)
    for layer in PRUNING:
        worth = predictor.nets[str(layer)](entered[layer], torch.arange(74)[None], torch.tensor([[69]]))[
            :, :70
        ]
        best = worth.topk(3).indices
        hits = batch.ids.gather(1, best) == PLANTED
        assert hits.float().mean() > 0.9


def test_it_can_learn_that_the_last_lines_matter(tmp_path: Path) -> None:
    """Which no hidden state tells: at the same place, a token is near the end of a short text only."""

    def near_the_end(seed: int) -> Labelled:
        one = item(40 + 15 * (seed % 4), 3, seed=seed)
        far = one.prompt - torch.arange(one.prompt)
        return Labelled(one, (1.0 / far).expand(len(PRUNING), -1).clone())

    predictor = fresh()
    data = [near_the_end(seed) for seed in range(16)]
    list(fit(frozen(), data, predictor, replace(ALONE["match"], steps=120, rate=2e-2), tmp_path))
    for layer in PRUNING:
        assert float(predictor.nets[str(layer)].ends[1].detach()) < -0.2


@pytest.mark.parametrize("floors", [3, 40], ids=["few floors", "mostly floors"])
@pytest.mark.parametrize("keep", [0.1, 0.3, 0.8])
def test_gates_stay_open_on_what_must_stay_and_on_a_share_of_the_rest(floors: int, keep: float) -> None:
    items = [one.item for one in DATA[:3]]
    marked = [Item(i.ids, i.prompt, i.segments, [place < floors for place in range(70)]) for i in items]
    batch = collate(marked)
    targets = normalised(torch.rand(2, *batch.ids.shape), batch.prompt)
    seen: list[torch.Tensor] = []
    model = frozen()
    read = model.read

    def watched(ids: torch.Tensor, enter: object = None) -> torch.Tensor:
        if enter is None:
            return read(ids)

        def noted(layer: int, hidden: torch.Tensor) -> torch.Tensor | None:
            gates = enter(layer, hidden)  # type: ignore[operator]
            if gates is not None:
                seen.append(gates)
            return gates

        return read(ids, noted)

    model.read = watched  # type: ignore[method-assign]
    draw = torch.Generator().manual_seed(0)
    terms(model, fresh(), batch, targets, keep=keep, temperature=0.001, draw=draw)
    assert len(seen) == len(PRUNING)
    for gates in seen:
        assert (gates[batch.floor] == 0).all()
        assert (gates[:, :4] == 0).all()
        assert (gates[batch.answer] == 0).all()
        assert (gates[:, 54:70] == 0).all()
    # Nearly hard gates: what must stay is open, and of the others the share that is to be kept.
    must = max(floors, 4) + 16
    open_ones = ((seen[-1].exp() > 0.5) & batch.prompt).sum(1)
    assert ((open_ones - must - keep * (70 - must)).abs() <= 2).all()


def test_a_training_that_was_stopped_comes_to_the_same_result(tmp_path: Path) -> None:
    whole = fresh()
    list(fit(frozen(), DATA, whole, SMALL, tmp_path / "whole", checkpoint_every=2))
    begun = fresh()
    for progress in fit(frozen(), DATA, begun, SMALL, tmp_path / "parts", checkpoint_every=2):
        if progress.step == 3:
            break
    again = fresh(seed=5)
    told = list(fit(frozen(), DATA, again, SMALL, tmp_path / "parts", checkpoint_every=2))
    assert [one.step for one in told] == [3, 4, 5, 6]
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
    curves = [(tmp_path / part / CURVE).read_text() for part in ("whole", "parts")]
    assert curves[0] == curves[1]


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    list(fit(frozen(), DATA[:2], fresh(), SMALL, tmp_path))
    with pytest.raises(ConfigError, match="other settings"):
        list(fit(frozen(), DATA[:2], fresh(), replace(SMALL, steps=9), tmp_path))


def test_a_loss_that_is_no_number_stops_it(tmp_path: Path) -> None:
    broken = Labelled(DATA[0].item, torch.full_like(DATA[0].labels, torch.nan))
    with pytest.raises(BraceError, match="not a finite number"):
        list(fit(frozen(), [broken], fresh(), SMALL, tmp_path))


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"keeps": (1.5,)}, {"match": -1.0}, {"rate": 0.0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="fitting"):
        replace(SMALL, **wrong)  # type: ignore[arg-type]
