from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brace.ledger.intervals import (
    Estimate,
    bootstrap,
    count,
    mean,
    quantile,
    quantile_interval,
    rate,
    ratio,
    wilson,
)


@pytest.mark.parametrize(
    ("hits", "n", "lo", "hi"),
    [  # Newcombe 1998, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (20, 20, 0.8389, 1.0),
    ],
)
def test_wilson_agrees_with_published_values(hits: int, n: int, lo: float, hi: float) -> None:
    assert wilson(hits, n) == pytest.approx((lo, hi), abs=5e-5)


def test_wilson_of_nothing_knows_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@given(st.integers(0, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_within_0_and_1(pair: tuple[int, int]) -> None:
    hits, n = pair
    lo, hi = wilson(hits, n)
    assert 0 <= lo <= (hits / n if n else 0) <= hi <= 1


@pytest.mark.parametrize(("hits", "n"), [(3, 2), (-1, 2)])
def test_wilson_refuses_impossible_counts(hits: int, n: int) -> None:
    with pytest.raises(ValueError, match="hits"):
        wilson(hits, n)


@pytest.mark.parametrize("n", [400, 5_000, 60_000])
def test_the_interval_of_a_mean_is_the_normal_one_at_any_size(n: int) -> None:
    values = np.random.default_rng(1).exponential(10.0, n)
    half = 1.96 * values.std() / math.sqrt(n)
    lo, hi = bootstrap(values, lambda samples: samples.mean(axis=1))
    assert lo == pytest.approx(values.mean() - half, abs=0.15 * half)
    assert hi == pytest.approx(values.mean() + half, abs=0.15 * half)


def test_the_bootstrap_repeats_itself_and_follows_its_seed() -> None:
    values = np.arange(50.0) ** 2
    assert mean(values, "ms", "calls") == mean(values, "ms", "calls")
    by_mean = [bootstrap(values, lambda samples: samples.mean(axis=1), seed=seed) for seed in (0, 1)]
    assert by_mean[0] != by_mean[1]


def test_quantile_intervals_agree_where_the_method_changes() -> None:
    values = np.random.default_rng(2).lognormal(5.0, 0.5, 5_001)
    for q in (0.5, 0.95, 0.99):
        resampled = quantile_interval(values[:-1], q)
        ranked = quantile_interval(values, q)
        assert ranked == pytest.approx(resampled, rel=0.03)


def test_rank_intervals_hold_the_true_quantile_19_times_in_20() -> None:
    rng = np.random.default_rng(3)
    truth = -math.log(0.05)
    intervals = [quantile_interval(rng.exponential(1.0, 6_000), 0.95) for _ in range(300)]
    held = sum(lo <= truth <= hi for lo, hi in intervals)
    assert 0.91 * 300 <= held <= 0.99 * 300


def test_estimates_of_nothing_are_a_dash() -> None:
    for nothing in (
        rate(0, 0, "calls"),
        mean([], "ms", "calls"),
        quantile([], 0.5, "ms", "calls"),
        ratio([], [], "calls"),
        ratio([0.0], [0.0], "calls"),
    ):
        assert (nothing.value, nothing.lo, nothing.hi, nothing.n) == (None, None, None, 0)
        assert str(nothing) == "–"


def test_one_value_has_no_interval() -> None:
    assert mean([4.0], "ms", "calls") == Estimate(4.0, None, None, 1, "ms", "calls")
    assert quantile([4.0], 0.99, "ms", "calls").lo is None


def test_a_count_of_zero_is_a_figure() -> None:
    assert str(count(0, "calls")) == "0 calls"


def test_figures_print_with_unit_and_interval() -> None:
    assert str(rate(8, 10, "calls")) == "80 % [49, 94.3]"
    assert str(Estimate(12345.6, 0.1234, 20000.0, 3, "ms", "calls")) == "12346 ms [0.123, 20000]"


@pytest.mark.parametrize(
    "figures", [(math.nan, 0.0, 1.0, 1), (1.0, math.inf, 1.0, 1), (0.0, 0.0, 0.0, 0), (None, None, None, 3)]
)
def test_an_estimate_is_a_finite_figure_or_nothing(figures: tuple[float, float, float, int]) -> None:
    with pytest.raises(ValueError, match=r"estimate|finite"):
        Estimate(*figures, "ms", "calls")


def test_a_ratio_is_of_sums_not_a_mean_of_ratios() -> None:
    assert ratio([1.0, 9.0], [10.0, 10.0], "calls").value == 0.5
    assert ratio([1.0, 0.0], [1.0, 99.0], "calls").value == 0.01
