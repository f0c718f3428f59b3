"""Predictors of whole lines: fitted on texts that are cut before they are read; and what tries them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from erecap_training_kit import WIDTH, frozen, item, tiny_model
from hypothesis import given
from hypothesis import strategies as st

from brace.erecap import Engine, Keep, PrefixScorer
from brace.erecap.scorers import Predictor
from brace.errors import ConfigError
from brace.training.erecap.encoding import Item, collate
from brace.training.erecap.examples import Example, said_once
from brace.training.erecap.fitting import Recipe, fit
from brace.training.erecap.frozen import GONE
from brace.training.erecap.labels import Labelled, normalised
from brace.training.erecap.losses import LineGates, terms
from brace.training.erecap.quality import by_chance, cut_lines, judged_by, newest_first

LAYER = 5
PLANTED = 7
LINES = 10
SMALL = Recipe(steps=40, batch_tokens=300, keeps=(0.4,), rate=5e-3, ends_rate=5e-3, temperatures=(0.5, 0.5))
ALONE = {
    "language": replace(SMALL, match=0.0, ranking=0.0),
    "match": replace(SMALL, language=0.0, ranking=0.0),
    "ranking": replace(SMALL, language=0.0, match=0.0),
}


def fresh() -> Predictor:
    torch.manual_seed(0)
    return Predictor.fresh("llama", WIDTH, (LAYER,), lines=True)


def planted(seed: int) -> tuple[Labelled, int]:
    """An item of which one line, full of one token, is what matters; and that line's number."""
    one = item(80, 4, seed=seed, lines=LINES)
    best = random.Random(seed).randrange(1, LINES)
    ids = [
        PLANTED
        if place < 80 and one.segments[place] == best and place % 2
        else 9
        if token == PLANTED
        else token
        for place, token in enumerate(one.ids)
    ]
    worth = torch.tensor([1.0 if number == best else 0.001 for number in one.segments])
    return Labelled(Item(ids, 80, one.segments, one.floor), worth[None].clone()), best


DATA = [planted(seed)[0] for seed in range(40)]


@pytest.mark.parametrize("term", ALONE)
def test_each_term_alone_moves_the_weights_and_gets_smaller(term: str, tmp_path: Path) -> None:
    predictor = fresh()
    before = {name: value.clone() for name, value in predictor.state_dict().items()}
    told = list(fit(frozen(), DATA[:2], predictor, ALONE[term], tmp_path))
    for name, value in predictor.state_dict().items():
        assert not torch.equal(value, before[name]), name
    first, last = (sum(getattr(one, term) for one in part) for part in (told[:5], told[-5:]))
    assert last < first


def test_a_planted_line_is_found_in_texts_never_seen(tmp_path: Path) -> None:
    predictor = fresh()
    list(fit(frozen(), DATA, predictor, replace(ALONE["ranking"], steps=150), tmp_path))
    judge = judged_by(Engine(tiny_model()), predictor.eval())
    hits = 0
    for seed in range(900, 910):
        labelled, best = planted(seed)
        worth = judge(labelled.item)
        hits += max(worth, key=worth.__getitem__) == best
    assert hits >= 8


@pytest.mark.parametrize("keep", [0.001, 0.3, 1.0])
def test_gates_close_on_whole_lines_and_never_on_floors_template_or_answer(keep: float) -> None:
    items = [replace_template(one.item) for one in DATA[:3]]
    batch = collate(items)
    targets = normalised(torch.rand(1, *batch.ids.shape), batch.prompt)
    gates = LineGates(fresh(), batch, targets, keep, 1e-7, torch.Generator().manual_seed(0))
    model = frozen()
    model.read(batch.ids, gates.look)
    closed = gates.enter(0, torch.empty(0))
    assert closed is not None
    assert gates.enter(1, torch.empty(0)) is None
    assert (closed[batch.floor | ~batch.prompt | (batch.segments < 0)] == 0).all()
    loose = batch.prompt & (batch.segments >= 0)
    for row, one in enumerate(items):
        for number in set(one.segments) - {-1}:
            own = closed[row][loose[row] & (batch.segments[row] == number)]
            assert (own == own[0]).all()
    free = loose & (batch.segments != 0)  # the first line has the floor
    kept = (closed[free] > GONE / 6).float().mean()
    assert float(kept) == pytest.approx(0 if keep < 0.01 else keep, abs=0.12)


def replace_template(one: Item) -> Item:
    """The last line's tokens stand around the lines."""
    segments = [-1 if number == LINES - 1 else number for number in one.segments]
    return Item(one.ids, one.prompt, segments, one.floor)


def test_a_predictor_of_lines_says_so_and_does_not_prune(tmp_path: Path) -> None:
    fresh().save(tmp_path / "lines.safetensors")
    again = Predictor(tmp_path / "lines.safetensors")
    assert again.line_layer == LAYER
    with pytest.raises(ConfigError, match="whole lines"):
        Engine(tiny_model(), again).prefill(torch.randint(3, 60, (1, 64)), keep=Keep(ratio=0.5))


def test_scores_are_those_of_an_uncut_reading() -> None:
    one, predictor = DATA[0].item, fresh().eval()
    entered: dict[int, torch.Tensor] = {}
    ids = torch.tensor([one.ids[: one.prompt]])
    frozen().read(ids, entered.__setitem__)
    positions = torch.arange(one.prompt)[None]
    wanted = predictor.nets[str(LAYER)](entered[LAYER], positions, positions[:, -1:])
    found = PrefixScorer(Engine(tiny_model(), predictor), LAYER).scores(one.ids[: one.prompt])
    assert torch.allclose(found, wanted[0], atol=1e-4)


def test_losses_need_labels_of_one_layer_only() -> None:
    batch = collate([one.item for one in DATA[:2]])
    targets = normalised(torch.rand(1, *batch.ids.shape), batch.prompt)
    draw = torch.Generator().manual_seed(0)
    found = terms(frozen(), fresh(), batch, targets, keep=0.4, temperature=0.1, draw=draw)
    assert float(found.language.detach()) > 0


@given(st.integers(0, 1000), st.floats(0, 1), st.sampled_from(["recency", "chance"]))
def test_a_cut_keeps_floors_order_answer_and_its_share(seed: int, share: float, rule: str) -> None:
    one = item(80, 4, seed=seed, lines=LINES)
    worth = newest_first(one) if rule == "recency" else by_chance(one)
    cut = cut_lines(one, worth, share)
    assert cut.ids[cut.prompt :] == one.ids[one.prompt :]
    assert cut.segments == sorted(cut.segments)
    assert sum(cut.floor) == sum(one.floor)
    loose = sum(number != 0 for number in one.segments)  # the first line has the floor
    kept = sum(number != 0 for number in cut.segments)
    assert kept <= share * loose
    if share == 1:
        assert cut == one
    if rule == "recency" and kept:
        assert max(cut.segments) == LINES - 1


def test_what_is_said_again_later_is_left_out_unless_protected() -> None:
    lines = (
        "[task 0] find it\n", "[message 1 a0] room 2: box\n", "[message 2 a0] room 3: key\n",
        "[observation 2] room 2: box\n", "[message 3 a1] room 2: box\n", "Plan:\n", "Plan:\n",
    )  # fmt: skip
    once = said_once(Example(lines, "wait()", frozenset({0, 5, 6})))
    assert once.lines == (lines[0], *lines[2:])
    assert once.protected == {0, 4, 5}
