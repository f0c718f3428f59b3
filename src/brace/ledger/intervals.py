"""Figures with their 95 % intervals: Wilson for rates, the percentile bootstrap for everything else.

What the resampling costs is bounded, whatever the number of values (see `bootstrap`, `quantile_interval`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
"""From samples, one a row, `(r, n)` or `(r, n, k)`, to one figure each, `(r,)`."""

NONE = "–"
"""How a figure that does not exist is printed."""
SHARE = "share"
"""The unit of rates: stored in 0..1, printed in per cent."""
TAILS = (0.025, 0.975)
"""The quantiles between which a 95 % interval lies."""

_Z = 1.959963984540054  # the normal 97.5 % point
_MOST = 5_000  # values per resample; beyond it cheaper methods are as good
_CELLS = 1_000_000  # drawn at a time, so that memory stays in megabytes


@dataclass(frozen=True, slots=True)
class Estimate:
    """One figure of a table. `value` is None when there was nothing to measure (`n == 0`)."""

    value: float | None
    lo: float | None
    hi: float | None
    n: int
    unit: str
    denominator: str
    """What `n` counts: "calls", "triggers", "episodes" …"""

    def __post_init__(self) -> None:
        if (self.value is None) != (self.n == 0):
            raise ValueError(f"an estimate has a value exactly when n > 0, not {self.value} with n={self.n}")
        if any(x is not None and not math.isfinite(x) for x in (self.value, self.lo, self.hi)):
            raise ValueError(f"not a finite figure: {self.value} [{self.lo}, {self.hi}]")

    def __str__(self) -> str:
        if self.value is None:
            return NONE
        scale, unit = (100.0, "%") if self.unit == SHARE else (1.0, self.unit)
        text = f"{_show(self.value * scale)} {unit}".rstrip()
        if self.lo is None or self.hi is None:
            return text
        return f"{text} [{_show(self.lo * scale)}, {_show(self.hi * scale)}]"


def wilson(hits: int, n: int) -> tuple[float, float]:
    """The Wilson score interval of `hits` out of `n`; of none, all that can be said: 0 to 1."""
    if not 0 <= hits <= n:
        raise ValueError(f"{hits} hits out of {n}")
    if n == 0:
        return 0.0, 1.0
    share, z2 = hits / n, _Z * _Z
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    # At the ends the formula is exact, floating point is not.
    return (0.0 if hits == 0 else centre - half), (1.0 if hits == n else centre + half)


def bootstrap(
    values: ArrayLike, statistic: Statistic, *, resamples: int = 1_000, seed: int = 0
) -> tuple[float, float]:
    """The percentile bootstrap interval of `statistic` over the rows of `values`.

    Up to 5,000 rows it is the plain one. Beyond, each resample draws only m = 5,000 of the n rows, and its
    deviations from the statistic of all rows are shrunk by √(m/n): the m-out-of-n bootstrap, valid for
    statistics whose error falls with √n (means, ratios of sums). So the work never exceeds resamples × 5,000.
    """
    rows = np.asarray(values, dtype=np.float64)
    n = len(rows)
    if n < 2:
        raise ValueError("an interval needs at least two values")
    m = min(n, _MOST)
    rng = np.random.default_rng(seed)
    chunk = max(1, _CELLS // m)
    drawn = [
        statistic(rows[rng.integers(0, n, (min(chunk, resamples - done), m))])
        for done in range(0, resamples, chunk)
    ]
    lo, hi = np.quantile(np.concatenate(drawn), TAILS)
    if m < n:
        centre, shrink = statistic(rows[None])[0], math.sqrt(m / n)
        lo, hi = centre + (lo - centre) * shrink, centre + (hi - centre) * shrink
    return float(lo), float(hi)


def quantile_interval(values: ArrayLike, q: float) -> tuple[float, float]:
    """The interval of the q-quantile: bootstrapped up to 5,000 values, from order statistics beyond.

    The number of values below the true quantile is binomial (n, q), so two ranks around n·q bracket it with
    95 % whatever the distribution. With few values those ranks leave the sample, hence the bootstrap there.
    """
    numbers = np.asarray(values, dtype=np.float64)
    n = len(numbers)
    if n <= _MOST:
        return bootstrap(numbers, lambda samples: np.quantile(samples, q, axis=1))
    half = _Z * math.sqrt(n * q * (1 - q))
    ranks = (max(0, math.floor(n * q - half) - 1), min(n - 1, math.ceil(n * q + half)))
    ordered = np.partition(numbers, ranks)
    return float(ordered[ranks[0]]), float(ordered[ranks[1]])


def count(value: int, unit: str) -> Estimate:
    """A number of things in one run: exact, so without an interval, and 0 is a figure."""
    return Estimate(value, None, None, 1, unit, "run")


def rate(hits: int, n: int, denominator: str) -> Estimate:
    """`hits` out of `n`, with Wilson's interval."""
    if n == 0:
        return Estimate(None, None, None, 0, SHARE, denominator)
    return Estimate(hits / n, *wilson(hits, n), n, SHARE, denominator)


def rate_deviance(hits: int, n: int, other_hits: int, other_n: int) -> float:
    """How far two counts lie from one common rate: chi-squared with one degree of freedom if it is one."""
    pooled = (hits + other_hits) / (n + other_n)
    terms = [
        2 * count * math.log(count / expected)
        for of, whole in ((hits, n), (other_hits, other_n))
        for count, expected in ((of, whole * pooled), (whole - of, whole * (1 - pooled)))
        # 0 · log 0 counts as 0.
        if count
    ]
    # Equal rates give 0, and rounding may give a little less.
    return max(0.0, sum(terms))


def chance_of_deviance(deviance: float, degrees: int) -> float:
    """The chance that chi-squared with so many degrees of freedom is larger: many rates judged at once."""
    half = deviance / 2
    # Known for one degree and for two (for none, by definition); each two more add one term.
    first = 2 - degrees % 2
    chance = 1.0 if degrees == 0 else math.erfc(math.sqrt(half)) if first == 1 else math.exp(-half)
    return chance + sum(
        math.pow(half, k / 2 - 1) * math.exp(-half) / math.gamma(k / 2)
        for k in range(first + 2, degrees + 1, 2)
    )


def mean(values: ArrayLike, unit: str, denominator: str) -> Estimate:
    """The mean, with a bootstrap interval (none for a single value)."""
    numbers = np.asarray(values, dtype=np.float64)
    return _estimate(numbers, lambda samples: np.asarray(samples.mean(axis=1)), bootstrap, unit, denominator)


def quantile(values: ArrayLike, q: float, unit: str, denominator: str) -> Estimate:
    """The q-quantile (linear between values), with its interval (none for a single value)."""
    return _estimate(
        np.asarray(values, dtype=np.float64),
        lambda samples: np.quantile(samples, q, axis=1),
        lambda numbers, _: quantile_interval(numbers, q),
        unit,
        denominator,
    )


def ratio(parts: ArrayLike, wholes: ArrayLike, denominator: str) -> Estimate:
    """Σ parts / Σ wholes over paired rows, as a share, with a bootstrap interval over the pairs."""
    pairs = np.column_stack((np.asarray(parts, np.float64), np.asarray(wholes, np.float64)))
    pairs = pairs[pairs[:, 1] > 0]  # an empty whole has no parts to share
    return _estimate(
        pairs,
        lambda samples: np.divide(*np.moveaxis(samples.sum(axis=1), 1, 0)),
        bootstrap,
        SHARE,
        denominator,
    )


def _estimate(
    rows: Floats,
    statistic: Statistic,
    interval: Callable[[Floats, Statistic], tuple[float, float]],
    unit: str,
    denominator: str,
) -> Estimate:
    n = len(rows)
    if n == 0:
        return Estimate(None, None, None, 0, unit, denominator)
    value = float(statistic(rows[None])[0])
    lo, hi = interval(rows, statistic) if n > 1 else (None, None)
    return Estimate(value, lo, hi, n, unit, denominator)


def _show(value: float) -> str:
    """Three digits that matter, without exponents for large figures."""
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
