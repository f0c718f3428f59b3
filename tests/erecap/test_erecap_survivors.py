"""Which tokens live: head, tail, floors, whole segments, then the best; at the positions they had."""

from __future__ import annotations

import math
import random

import pytest
import torch
from erecap_kit import EVERY, LAYERS, FakeScorer, engine_of, model_of, padded, row, text
from hypothesis import example, given, settings
from hypothesis import strategies as st

from brace.erecap import Engine, Keep, Prefill
from brace.errors import ConfigError

few = settings(deadline=None, max_examples=25)
seeds = st.integers(0, 10_000)


def tail(tokens: int) -> int:
    return max(16, math.ceil(0.1 * tokens))


def places(prefill: Prefill, layer: int) -> list[int]:
    return prefill.survivors[layer][0].nonzero()[:, 0].tolist()


def planted(tokens: int, seed: int) -> list[float]:
    order = list(range(tokens))
    random.Random(seed).shuffle(order)
    return [float(worth) for worth in order]


def read(
    tokens: int,
    worth: list[float],
    keep: Keep,
    floor: list[bool] | None = None,
    segments: list[int] | None = None,
) -> Prefill:
    return Engine(model_of("llama"), FakeScorer(worth)).prefill(
        row(text(tokens)),
        keep=keep,
        floor=None if floor is None else torch.tensor([floor]),
        segments=None if segments is None else row(segments),
    )


@pytest.mark.parametrize(("name", "attention"), EVERY)
def test_caches_are_as_long_as_the_schedule_says_and_survivors_keep_their_positions(
    name: str, attention: str
) -> None:
    engine = engine_of(name, attention)
    prefill = engine.prefill(row(text(120)), keep=Keep(ratio=0.6))
    context = prefill.context
    assert prefill.schedules[0].layers == (3, 5)
    assert context.lengths() == prefill.schedules[0].lengths() == [120] * 3 + [72] * 2 + [43] * 3
    assert context.nbytes() == prefill.schedules[0].kv_bytes(*engine.backbone.kv_shape, 8)
    for layer in range(LAYERS):
        assert context.positions[layer][0].tolist() == places(prefill, layer)
        assert context.layers[layer].keys.shape[2] == len(places(prefill, layer))
    engine.extend(context, row([5, 6]))
    assert context.lengths() == [122] * 3 + [74] * 2 + [45] * 3
    assert all(positions[0, -2:].tolist() == [120, 121] for positions in context.positions)


@few
@given(st.integers(1, 260), st.floats(0.2, 0.95), seeds)
def test_head_tail_and_the_best_others_live(tokens: int, ratio: float, seed: int) -> None:
    worth = planted(tokens, seed)
    prefill = read(tokens, worth, Keep(ratio=ratio, layers=(2, 4, 6)))
    now = list(range(tokens))
    for layer in range(LAYERS):
        if layer in (2, 4, 6):
            safe = {*now[:4], *now[-tail(len(now)) :]}
            others = sorted((place for place in now if place not in safe), key=lambda place: -worth[place])
            room = max(0, math.floor(ratio * len(now)) - len(safe))
            now = sorted(safe | set(others[:room]))
        assert places(prefill, layer) == now


@few
@given(st.integers(60, 260), st.integers(24, 60), seeds)
def test_a_budget_by_token_is_met_exactly(tokens: int, budget: int, seed: int) -> None:
    prefill = read(tokens, planted(tokens, seed), Keep(budget=budget, layers=(1, 3, 5, 7)))
    assert len(places(prefill, LAYERS - 1)) == min(budget, tokens)
    assert prefill.context.lengths() == prefill.schedules[0].lengths()


@few
@example(tokens=300, ratio=0.2, seed=0, start=270, length=14)
@given(
    tokens=st.integers(60, 300),
    ratio=st.floats(0.2, 0.9),
    seed=seeds,
    start=st.integers(0, 280),
    length=st.integers(0, 40),
)
def test_marked_tokens_live_in_every_layer_wherever_they_are(
    tokens: int, ratio: float, seed: int, start: int, length: int
) -> None:
    marked = {place for place in range(start, start + length) if place < tokens}
    marked |= set(random.Random(seed).sample(range(tokens), 5))
    floor = [place in marked for place in range(tokens)]
    prefill = read(tokens, planted(tokens, seed), Keep(ratio=ratio, layers=(2, 4, 6)), floor)
    for layer in range(LAYERS):
        now = places(prefill, layer)
        assert marked | {*range(4), *range(tokens - 16, tokens)} <= set(now)
        before = places(prefill, max(0, layer - 1))
        assert set(before[-tail(len(before)) :]) <= set(now)


def test_floors_inside_the_first_long_tail_still_live_when_the_tail_has_shrunk() -> None:
    # Of 300 tokens the last 30 are the tail; of the 60 that are left later, only 16.
    floor = [270 <= place < 282 for place in range(300)]
    prefill = read(300, planted(300, 0), Keep(budget=40, layers=(1, 3, 5, 7)), floor)
    assert len(places(prefill, LAYERS - 1)) == 40
    assert {*range(4), *range(270, 282), *range(284, 300)} <= set(places(prefill, LAYERS - 1))


def test_floors_inside_the_first_long_tail_count_against_the_budget() -> None:
    floor = [270 <= place < 282 for place in range(300)]
    scorer = FakeScorer(planted(300, 0))
    with pytest.raises(ConfigError, match="budget"):
        Engine(model_of("llama"), scorer).prefill(
            row(text(300)), keep=Keep(budget=24, layers=(1, 3, 5, 7)), floor=torch.tensor([floor])
        )
    assert scorer.layers == []


def cut(tokens: int, seed: int) -> list[int]:
    """Segment numbers, 1 to 12 tokens each."""
    draw, numbers = random.Random(seed), []
    while len(numbers) < tokens:
        numbers += [numbers[-1] + 1 if numbers else 0] * draw.randint(1, 12)
    return numbers[:tokens]


@few
@given(st.integers(60, 260), st.floats(0.3, 0.9), seeds)
def test_segments_live_or_die_whole_and_within_the_schedule(tokens: int, ratio: float, seed: int) -> None:
    segments, worth = cut(tokens, seed), planted(tokens, seed)
    marked = random.Random(seed).randrange(tokens)
    floor = [place == marked for place in range(tokens)]
    prefill = read(tokens, worth, Keep(ratio=ratio, layers=(2, 4, 6)), floor, segments)
    before = list(range(tokens))
    for layer in range(LAYERS):
        now = places(prefill, layer)
        alive = {segments[place] for place in now}
        assert now == [place for place in before if segments[place] in alive]
        if layer in (2, 4, 6):
            safe = {*before[:4], *before[-tail(len(before)) :], marked}
            forced = [place for place in before if segments[place] in {segments[s] for s in safe}]
            assert set(forced) <= set(now)
            assert len(now) <= max(prefill.schedules[0].lengths()[layer], len(forced))
        before = now


def test_the_best_segments_live() -> None:
    segments = [place // 10 for place in range(100)]
    best = (3, 6)
    worth = [9.0 if segment in best else 1.0 for segment in segments]
    prefill = read(100, worth, Keep(ratio=0.5, layers=(2,)), segments=segments)
    assert {segments[place] for place in places(prefill, 2)} == {0, 3, 6, 8, 9}


def test_one_bright_word_does_not_save_a_long_segment_before_one_that_matters_throughout() -> None:
    segments = [place // 10 for place in range(100)]
    worth = [5.0 if segment == 4 else 0.0 for segment in segments]
    worth[25] = 40.0
    prefill = read(100, worth, Keep(ratio=0.4, layers=(2,)), segments=segments)
    assert {segments[place] for place in places(prefill, 2)} == {0, 4, 8, 9}


def test_protected_segments_larger_than_the_budget_are_refused() -> None:
    segments = [0 if place < 80 else 1 + place // 10 for place in range(120)]
    with pytest.raises(ConfigError, match="budget"):
        read(120, planted(120, 0), Keep(budget=40), segments=segments)


@settings(deadline=None, max_examples=60)
@example(tokens=183, budget=26, seed=0, layers=(1,))
@given(
    tokens=st.integers(150, 400),
    budget=st.integers(24, 80),
    seed=seeds,
    layers=st.sampled_from([(1,), (3, 5), (1, 3, 5, 7)]),
)
def test_a_budget_by_segment_is_met_or_refused(
    tokens: int, budget: int, seed: int, layers: tuple[int, ...]
) -> None:
    segments, worth = cut(tokens, seed), planted(tokens, seed)
    try:
        prefill = read(tokens, worth, Keep(budget=budget, layers=layers), segments=segments)
    except ConfigError:
        return
    assert len(places(prefill, LAYERS - 1)) <= budget


def test_segments_and_floors_of_a_padded_batch_are_those_of_each_row_alone() -> None:
    rows, worth = [text(90), text(60)], planted(90, 3)
    cuts, floors = [cut(90, 1), cut(60, 2)], [[p == 30 for p in range(90)], [p == 25 for p in range(60)]]
    engine = Engine(model_of("llama"), FakeScorer(worth))
    for side in ("left", "right"):
        ids, mask = padded(rows, side)
        segments, floor = padded(cuts, side, -1)[0], padded(floors, side, False)[0]
        batch = engine.prefill(ids, mask, keep=Keep(ratio=0.6), floor=floor, segments=segments)
        for index, one in enumerate(rows):
            alone = engine.prefill(
                row(one), keep=Keep(ratio=0.6), floor=torch.tensor([floors[index]]), segments=row(cuts[index])
            )
            for layer in range(LAYERS):
                mine = batch.survivors[layer][index][mask[index].bool()]
                assert torch.equal(mine, alone.survivors[layer][0])
            assert torch.allclose(batch.context.logits[index], alone.context.logits[0], atol=1e-8)


@pytest.mark.parametrize("side", ["left", "right"])
def test_worth_counts_the_pruning_layers_lived_through_then_ranks_by_score(side: str) -> None:
    rows, worth = [text(90), text(41), text(60)], planted(90, 3)
    ids, mask = padded(rows, side)
    batch = Engine(model_of("llama"), FakeScorer(worth)).prefill(ids, mask, keep=Keep(ratio=0.6))
    assert not batch.worth[mask == 0].any()
    for index in range(3):
        real = mask[index].bool()
        lived = sum(batch.survivors[layer][index][real].int() for layer in (3, 5))
        got = batch.worth[index][real]
        assert torch.equal(got.floor().int(), lived)
        for count in range(3):
            equals = (lived == count).nonzero()[:, 0].tolist()
            by_score = sorted(equals, key=lambda place: worth[place])
            assert sorted(equals, key=lambda place: float(got[place])) == by_score
