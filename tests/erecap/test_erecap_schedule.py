"""The arithmetic of a schedule: what lives on after each pruning layer."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from brace.erecap import Keep, Schedule, pruning_layers
from brace.errors import ConfigError

HEAD = 4
counts = st.integers(1, 6000)
depths = st.integers(6, 48)
floors_ = st.integers(0, 60)
ratios = st.floats(0.05, 1.0)
modest = settings(deadline=None, max_examples=150)


def tail(tokens: int) -> int:
    return max(16, math.ceil(0.1 * tokens))


def untouchable(tokens: int, floors: int) -> int:
    return min(tokens, HEAD + tail(tokens) + floors)


@st.composite
def custom_layers(draw: st.DrawFn, n_layers: int) -> tuple[int, ...]:
    chosen = draw(st.sets(st.integers(1, n_layers - 1), min_size=1, max_size=8))
    return tuple(sorted(chosen))


@pytest.mark.parametrize(
    ("n_layers", "expected"),
    [
        (28, (4, 7, 10, 13, 16, 19, 22, 25)),
        (32, (4, 7, 10, 13, 16, 19, 22, 25, 28)),
        (30, (4, 7, 10, 13, 16, 19, 22, 25)),
        (20, (4, 7, 10, 13, 16)),
        (19, (3, 5, 7, 9, 11, 13, 15)),
        (12, (3, 5, 7, 9)),
        (8, (3, 5)),
        (5, ()),
    ],
)
def test_pruning_layers_are_every_third_or_in_small_models_every_second(
    n_layers: int, expected: tuple[int, ...]
) -> None:
    assert pruning_layers(n_layers) == expected


@pytest.mark.parametrize(("ratio", "gone"), [(0.7, 0.942), (0.9, 0.570), (0.5, 0.996)])
def test_last_layer_reduction_of_28_layers(ratio: float, gone: float) -> None:
    # The tail alone would bind at .5 (a tenth each time): at this length floor(r N) is what counts.
    schedule = Keep(ratio=ratio).schedule(1_000_000, 28)
    assert schedule.last_reduction == pytest.approx(gone, abs=0.0006)


@modest
@given(counts, depths, floors_, ratios, st.data())
def test_a_ratio_takes_its_share_unless_the_protected_need_more(
    tokens: int, n_layers: int, floors: int, ratio: float, data: st.DataObject
) -> None:
    layers = data.draw(st.none() | custom_layers(n_layers))
    schedule = Keep(ratio=ratio, layers=layers).schedule(tokens, n_layers, floors)
    now = tokens
    if ratio < 1:
        assert schedule.layers == (pruning_layers(n_layers) if layers is None else layers)
        for kept in schedule.kept:
            assert kept == max(math.floor(ratio * now), untouchable(now, floors)) <= now
            now = kept
    assert schedule.last == now
    assert schedule.lengths()[0] == tokens


@modest
@given(counts, depths, floors_, st.integers(1, 7000), st.data())
def test_a_budget_ends_at_exactly_that_or_is_refused_with_a_reason(
    tokens: int, n_layers: int, floors: int, budget: int, data: st.DataObject
) -> None:
    layers = data.draw(st.none() | custom_layers(n_layers))
    keep = Keep(budget=budget, layers=layers)
    refusal = ""
    try:
        schedule = keep.schedule(tokens, n_layers, floors)
    except ConfigError as error:
        refusal = str(error)
    if refusal:
        assert f"budget of {budget} tokens" in refusal
        return
    assert schedule.last == min(budget, tokens)
    now = tokens
    for kept in schedule.kept:
        assert untouchable(now, floors) <= kept <= now
        now = kept


@settings(deadline=None, max_examples=400)
@example(2000, 2, 0, 26)
@given(st.integers(30, 20_000), st.integers(1, 6), st.integers(0, 40), st.integers(20, 400))
def test_a_budget_is_refused_only_when_the_protected_cannot_get_there(
    tokens: int, steps: int, floors: int, budget: int
) -> None:
    keep = Keep(budget=budget, layers=tuple(range(1, steps + 1)))
    least = tokens
    for _ in range(steps):
        least = untouchable(least, floors)
    if least <= budget:
        assert keep.schedule(tokens, 12, floors).last == min(budget, tokens)
    else:
        with pytest.raises(ConfigError, match="budget"):
            keep.schedule(tokens, 12, floors)


@modest
@given(st.integers(401, 6000), st.integers(150, 400))
def test_a_budget_goes_down_by_even_ratios(tokens: int, budget: int) -> None:
    schedule = Keep(budget=budget).schedule(tokens, 28)
    before = (tokens, *schedule.kept[:-1])
    even = (budget / tokens) ** (1 / len(schedule.kept))
    for old, new in zip(before, schedule.kept, strict=True):
        assert new == pytest.approx(max(even * old, untouchable(old, 0)), abs=max(3, 0.03 * old))


@modest
@given(counts, depths, ratios, st.integers(1, 8), st.integers(1, 256), st.sampled_from([1, 2, 4, 8]))
def test_lengths_never_grow_and_every_figure_follows_from_them(
    tokens: int, n_layers: int, ratio: float, heads: int, width: int, size: int
) -> None:
    schedule = Keep(ratio=ratio).schedule(tokens, n_layers)
    lengths = schedule.lengths()
    assert len(lengths) == n_layers
    assert lengths == sorted(lengths, reverse=True)
    for layer in range(1, n_layers):
        assert lengths[layer] == lengths[layer - 1] or layer in schedule.layers
    assert schedule.last == lengths[-1]
    assert schedule.mean == pytest.approx(sum(lengths) / n_layers)
    assert schedule.last_reduction == pytest.approx(1 - lengths[-1] / tokens)
    assert schedule.mean_reduction == pytest.approx(1 - sum(lengths) / n_layers / tokens)
    assert schedule.kv_bytes(heads, width, size) == sum(2 * heads * width * size * n for n in lengths)
    assert schedule.flops(64, 1000) <= Schedule(tokens, n_layers, (), ()).flops(64, 1000)


def test_keeping_everything_has_no_pruning_layer() -> None:
    for keep in (Keep(), Keep(ratio=1), Keep(budget=50), Keep(budget=51)):
        schedule = keep.schedule(50, 28)
        assert schedule.lengths() == [50] * 28
        assert schedule.last_reduction == schedule.mean_reduction == 0


@pytest.mark.parametrize("ratio", [0, -0.1, 1.01, math.nan, math.inf])
def test_a_ratio_out_of_range_is_refused(ratio: float) -> None:
    with pytest.raises(ConfigError, match="ratio"):
        Keep(ratio=ratio)


@pytest.mark.parametrize("budget", [0, -3])
def test_a_budget_of_nothing_is_refused(budget: int) -> None:
    with pytest.raises(ConfigError, match="budget"):
        Keep(budget=budget)


def test_ratio_and_budget_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="not both"):
        Keep(ratio=0.5, budget=100)


@pytest.mark.parametrize("layers", [(0,), (0, 3), (5, 3), (3, 3), (12,), (-1, 4)])
def test_pruning_layers_that_do_not_ascend_within_the_model_are_refused(layers: tuple[int, ...]) -> None:
    for keep in (Keep(ratio=0.5, layers=layers), Keep(budget=30, layers=layers), Keep(layers=layers)):
        with pytest.raises(ConfigError, match="pruning layers"):
            keep.schedule(100, 12)


def test_a_model_without_pruning_layers_cannot_meet_a_budget() -> None:
    with pytest.raises(ConfigError, match="no pruning layer"):
        Keep(budget=30).schedule(100, 5)


@pytest.mark.parametrize("floors", [11, 500])
def test_floors_larger_than_the_budget_are_refused_with_the_least_that_would_do(floors: int) -> None:
    with pytest.raises(ConfigError, match=str(20 + floors)):
        Keep(budget=30).schedule(1000, 28, floors)


def test_the_arithmetic_saved_lies_between_the_mean_reduction_and_its_square() -> None:
    plan = Keep(ratio=0.7).schedule(10_000, 28)
    few, many = plan.flops_saved(1, 10**9), plan.flops_saved(10**9, 1)
    assert few == pytest.approx(plan.mean_reduction, rel=1e-3)
    assert many == pytest.approx(1 - sum((n / 10_000) ** 2 for n in plan.lengths()) / 28, rel=1e-3)
    assert Keep().schedule(500, 28).flops_saved(64, 1000) == 0
