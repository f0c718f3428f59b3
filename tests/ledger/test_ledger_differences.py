"""Differences over the same seeds: what they must be for every input, and how wide they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brace.ledger.differences import (
    FEWEST,
    difference_of_quantiles,
    difference_of_rates,
    no_difference,
    paired_difference,
    verdict,
)
from brace.ledger.intervals import Estimate

WHOLE = st.integers(-1_000, 1_000).map(float)
SEEDS = st.integers(0, 40)
VALUES = st.dictionaries(SEEDS, WHOLE, min_size=2, max_size=12)
GROUPS = st.dictionaries(SEEDS, st.lists(WHOLE, min_size=1, max_size=6), min_size=2, max_size=8)
TALLIES = st.dictionaries(
    SEEDS, st.tuples(st.integers(0, 9), st.integers(1, 9)).map(lambda p: (min(p), p[1])), min_size=2
)


def span(estimate: Estimate) -> tuple[float | None, float | None, float | None]:
    return estimate.value, estimate.lo, estimate.hi


@given(VALUES, VALUES)
def test_swapping_the_runs_swaps_the_sign(a: dict[int, float], b: dict[int, float]) -> None:
    there, back = paired_difference(a, b, "ms"), paired_difference(b, a, "ms")
    assert there.n == back.n == len(a.keys() & b.keys())
    if there.value is not None and back.value is not None:
        assert there.value == -back.value


@given(GROUPS, GROUPS, st.sampled_from([0.5, 0.95, 0.99]))
def test_swapping_groups_swaps_the_sign(
    a: dict[int, list[float]], b: dict[int, list[float]], q: float
) -> None:
    there, back = difference_of_quantiles(a, b, q, "ms"), difference_of_quantiles(b, a, q, "ms")
    assert there.n == back.n
    if there.value is not None and back.value is not None:
        assert there.value == -back.value
        if there.n > 1:
            assert there.lo == pytest.approx(-back.hi)  # type: ignore[operator]


@given(VALUES, WHOLE)
def test_a_constant_shift_is_found_exactly(b: dict[int, float], shift: float) -> None:
    found = paired_difference({seed: value + shift for seed, value in b.items()}, b, "ms")
    assert span(found) == (shift, shift, shift)
    more_or_less = "more" if shift > 0 else "less"
    told = more_or_less if found.n >= FEWEST else "too few seeds to tell"
    assert verdict(found) == (told if shift else "no difference shown")


@given(GROUPS, WHOLE, st.sampled_from([0.0, 0.5, 0.95, 1.0]))
def test_a_constant_shift_of_every_call_is_found(b: dict[int, list[float]], shift: float, q: float) -> None:
    a = {seed: [value + shift for value in values] for seed, values in b.items()}
    assert span(difference_of_quantiles(a, b, q, "ms")) == pytest.approx((shift, shift, shift))


@given(VALUES, GROUPS, TALLIES)
def test_a_run_does_not_differ_from_itself(
    values: dict[int, float], groups: dict[int, list[float]], tallies: dict[int, tuple[int, int]]
) -> None:
    for same in (
        paired_difference(values, values, "ms"),
        difference_of_quantiles(groups, groups, 0.95, "ms"),
        difference_of_rates(tallies, tallies),
    ):
        assert span(same) == (0, 0, 0)
        assert no_difference(same)


@given(VALUES, VALUES, VALUES)
def test_only_shared_seeds_count(a: dict[int, float], b: dict[int, float], others: dict[int, float]) -> None:
    apart = {seed + 100: value for seed, value in others.items()}
    beyond = {seed + 200: value for seed, value in others.items()}
    assert paired_difference(a | apart, b | beyond, "ms") == paired_difference(a, b, "ms")
    grown = {seed: [value, 2 * value] for seed, value in a.items()}
    small = {seed: [value] for seed, value in b.items()}
    more = {seed: [value] for seed, value in apart.items()}
    assert difference_of_quantiles(grown | more, small, 0.5, "") == difference_of_quantiles(
        grown, small, 0.5, ""
    )
    tallied = dict.fromkeys(a, (1.0, 2.0))
    assert difference_of_rates(tallied | dict.fromkeys(apart, (5.0, 5.0)), tallied).value == 0


@given(GROUPS, GROUPS, st.floats(0, 1))
def test_values_are_the_plain_quantiles_of_all_calls(
    a: dict[int, list[float]], b: dict[int, list[float]], q: float
) -> None:
    shared = a.keys() & b.keys()
    found = difference_of_quantiles(a, b, q, "ms").value
    if not shared:
        assert found is None
    else:
        first, second = (np.concatenate([of[seed] for seed in shared]) for of in (a, b))
        assert found == pytest.approx(np.quantile(first, q) - np.quantile(second, q))


@given(st.lists(st.lists(WHOLE, max_size=4), min_size=1, max_size=5), st.floats(0, 1), st.integers(0, 99))
def test_a_weighed_quantile_is_that_of_the_repeated_values(
    groups: list[list[float]], q: float, seed: int
) -> None:
    from brace.ledger.differences import _Pool

    counts = np.random.default_rng(seed).integers(0, 3, len(groups))
    pool = _Pool(dict(enumerate(groups)), list(range(len(groups))))
    if not len(pool.values):
        return
    repeated = [value for group, n in zip(groups, counts, strict=True) for value in group * int(n)]
    (found,) = pool.quantiles(q, counts[None])
    if repeated:
        assert found == pytest.approx(np.quantile(repeated, q), abs=1e-6)
    else:
        assert np.isnan(found)


def test_rates_are_of_sums_not_means_of_rates() -> None:
    found = difference_of_rates({1: (9, 10), 2: (0, 90)}, {1: (0, 10), 2: (0, 10)})
    assert found.value == pytest.approx(0.09)
    assert (found.n, found.unit, found.denominator) == (2, "share", "shared seeds")


def test_calls_that_hang_together_do_not_pass_for_many() -> None:
    # Each episode has its own speed and 100 equal calls: the interval must be that of 20 episodes.
    rng = np.random.default_rng(5)
    speeds = {side: rng.normal(100, 10, 20) for side in "ab"}
    a, b = ({seed: np.full(100, speed) for seed, speed in enumerate(speeds[side])} for side in "ab")
    found = difference_of_quantiles(a, b, 0.5, "ms")
    assert found.lo is not None
    assert found.hi is not None
    assert found.hi - found.lo > 5
    assert no_difference(found)


def test_an_interval_of_a_paired_difference_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(200):
        base = rng.normal(0, 50, 30)
        a = dict(enumerate(base + rng.normal(3, 5, 30)))
        found = paired_difference(a, dict(enumerate(base)), "")
        covered += found.lo <= 3 <= found.hi  # type: ignore[operator]
    assert covered / 200 == pytest.approx(0.95, abs=0.05)


@pytest.mark.parametrize("a", [{}, {1: 2.0}])
def test_one_pair_or_none_shows_nothing(a: dict[int, float]) -> None:
    found = paired_difference(a, {1: 1.0}, "ms")
    assert (found.value, found.lo) == ((1.0 if a else None), None)
    assert verdict(found) == "no difference shown"


def test_without_calls_there_is_no_difference_to_speak_of() -> None:
    assert difference_of_quantiles({1: [], 2: []}, {1: [1.0], 2: [2.0]}, 0.5, "ms").value is None
    assert difference_of_rates({1: (0, 0)}, {1: (1, 1)}).value is None
