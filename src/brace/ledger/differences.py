"""The figures of a run less those of a baseline, over the seeds both have, with 95 % bootstrap intervals.

The same seed gives the same episode to both runs, so most of what makes episodes unequal cancels out. Calls
of one episode are not independent of each other: whole episodes are drawn again, never single calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from brace.ledger.intervals import SHARE, TAILS, Estimate, Floats, bootstrap
from brace.ledger.metrics import EXECUTED, MISSED, PROMPTED, QUANTILES, latency_kinds, per_episode
from brace.ledger.reader import Run

FIGURE = "figure."
"""What the columns of the world's own figures begin with."""
Counts = NDArray[np.int64]
Verdict = Literal["more", "less", "no difference shown", "too few seeds to tell"]

SHARED = "shared seeds"
"""What the n of a difference counts."""
FEWEST = 6
"""With fewer pairs not even differences that all point one way are beyond chance at 95 %: 2 · 0.5⁵ > 0.05."""
_RESAMPLES = 1_000
_CELLS = 1_000_000  # drawn at a time, so that memory stays in megabytes


def shared_seeds(run: Run, baseline: Run) -> list[int]:
    """The seeds of which both have finished an episode."""
    return sorted(set(run.episodes["seed"]) & set(baseline.episodes["seed"]))


def over_seeds(run: Run, seeds: Iterable[int]) -> Run:
    """The same run as if only these seeds had been run."""
    episodes = run.episodes.filter(pl.col("seed").is_in(list(seeds)))
    steps, calls = (
        table.join(episodes, on="episode", how="semi", maintain_order="left")
        for table in (run.steps, run.calls)
    )
    return replace(run, steps=steps, calls=calls, episodes=episodes)


def same_latency(run: Run, baseline: Run) -> bool:
    """Whether the latencies of the two may be compared: they are of the same kinds, or one has none."""
    kinds = [latency_kinds(one) for one in (run, baseline)]
    return kinds[0] == kinds[1] or not all(kinds)


def differences(run: Run, baseline: Run) -> dict[str, Estimate]:
    """Each figure of `run` less that of `baseline`; what rests on latencies only where their kinds agree."""
    ours, theirs = _BySeed(run), _BySeed(baseline)

    def episodes(column: str, unit: str) -> Estimate:
        return paired_difference(ours.means(column), theirs.means(column), unit)

    def calls(part: pl.Expr, whole: pl.Expr, unit: str = SHARE) -> Estimate:
        return difference_of_rates(ours.tallies(part, whole), theirs.tallies(part, whole), unit)

    every = pl.lit(True)
    found = {"success": episodes("success", SHARE), "calls_per_episode": episodes("calls", "calls")}
    if same_latency(run, baseline):
        kinds = latency_kinds(run) or latency_kinds(baseline)
        for kind in kinds:
            of_kind = EXECUTED & (pl.col("kind") == kind)
            for label, q in QUANTILES:
                name = f"latency_{label}" + (f".{kind}" if len(kinds) > 1 else "")
                pair = [one.values("latency_ms", of_kind) for one in (ours, theirs)]
                found[name] = difference_of_quantiles(pair[0], pair[1], q, "ms")
        found["miss_rate"] = calls(MISSED, pl.col("slo_ms").is_not_null())
        found["wait_per_episode"] = episodes("wait_ms", "ms")
    found["tokens_in"] = calls(pl.col("tokens_in"), PROMPTED, "tokens")
    found["tokens_after"] = calls(pl.col("tokens_after"), PROMPTED, "tokens")
    found["churn"] = calls(pl.col("changed"), every)
    found["steps"] = episodes("steps", "steps")
    columns = (column for column in run.episodes.columns if column.startswith(FIGURE))
    return found | {column: episodes(column, "") for column in columns if column in baseline.episodes.columns}


class _BySeed:
    """A run's values gathered by seed; several episodes of one seed count as one."""

    def __init__(self, run: Run) -> None:
        seeds = run.episodes.select("episode", "seed")
        self._seeds = sorted(set(seeds["seed"]))
        self._calls = run.calls.join(seeds, on="episode", how="inner", maintain_order="left")
        # The episode's own record has it already.
        counted = per_episode(run).drop("wait_ms")
        self._episodes = run.episodes.join(counted, on="episode", how="left", maintain_order="left")

    def means(self, column: str) -> dict[int, float]:
        """The mean over a seed's episodes; a seed without a value is left out."""
        known = self._episodes.select("seed", pl.col(column).cast(pl.Float64)).drop_nulls()
        return dict(known.group_by("seed").agg(pl.col(column).mean()).iter_rows())

    def values(self, column: str, where: pl.Expr) -> dict[int, list[float]]:
        """The values of a seed's calls; a seed without such a call has none."""
        found = self._calls.filter(where).group_by("seed", maintain_order=True).agg(pl.col(column))
        none: dict[int, list[float]] = {seed: [] for seed in self._seeds}
        return none | dict(found.iter_rows())

    def tallies(self, part: pl.Expr, where: pl.Expr) -> dict[int, tuple[float, float]]:
        """The sum of `part` over a seed's calls, and how many these are."""
        found = (
            self._calls.filter(where).group_by("seed").agg(part=part.cast(pl.Float64).sum(), whole=pl.len())
        )
        counted = {seed: (part, float(whole)) for seed, part, whole in found.iter_rows()}
        return dict.fromkeys(self._seeds, (0.0, 0.0)) | counted


def paired_difference(a: Mapping[int, float], b: Mapping[int, float], unit: str) -> Estimate:
    """The mean of a - b over the seeds both have: one value a seed."""
    seeds = _shared(a, b)
    gaps = np.array([a[seed] - b[seed] for seed in seeds], np.float64)
    if not seeds:
        return _nothing(unit)
    if len(seeds) == 1:
        return Estimate(float(gaps[0]), None, None, 1, unit, SHARED)
    lo, hi = bootstrap(gaps, lambda samples: np.asarray(samples.mean(axis=1)))
    return Estimate(float(gaps.mean()), lo, hi, len(seeds), unit, SHARED)


def difference_of_quantiles(
    a: Mapping[int, ArrayLike], b: Mapping[int, ArrayLike], q: float, unit: str
) -> Estimate:
    """The q-quantile of all values of a less that of b; `a` and `b` hold the values of each seed."""
    seeds = _shared(a, b)
    pools = [_Pool(of_run, seeds) for of_run in (a, b)]
    if not all(len(pool.values) for pool in pools):
        return _nothing(unit)
    first, second = (float(np.quantile(pool.values, q)) for pool in pools)
    chunk = max(1, _CELLS // max(len(pool.values) for pool in pools))
    # The same draw of seeds for both: they are pairs.
    drawn = [pools[0].quantiles(q, part) - pools[1].quantiles(q, part) for part in _draws(len(seeds), chunk)]
    return _estimate(first - second, drawn, len(seeds), unit)


def difference_of_rates(
    a: Mapping[int, tuple[float, float]], b: Mapping[int, tuple[float, float]], unit: str = SHARE
) -> Estimate:
    """Σ part / Σ whole of a less that of b; `a` and `b` hold (part, whole) of each seed.

    Misses and calls give a rate; tokens and calls give a mean per call, in the unit of the parts.
    """
    seeds = _shared(a, b)
    pairs = [np.array([of_run[seed] for seed in seeds], np.float64).reshape(-1, 2) for of_run in (a, b)]
    if not all(rows[:, 1].sum() > 0 for rows in pairs):
        return _nothing(unit)
    every = np.ones((1, len(seeds)), np.int64)
    value = float((_ratios(every, pairs[0]) - _ratios(every, pairs[1]))[0])
    chunk = max(1, _CELLS // len(seeds))
    drawn = [_ratios(part, pairs[0]) - _ratios(part, pairs[1]) for part in _draws(len(seeds), chunk)]
    return _estimate(value, drawn, len(seeds), unit)


def no_difference(difference: Estimate) -> bool:
    """Whether a difference is within the noise: its interval covers 0, or there is no interval to go by."""
    if difference.lo is None or difference.hi is None:
        return True
    return difference.lo <= 0 <= difference.hi


def verdict(difference: Estimate) -> Verdict:
    """A difference in words: what was subtracted from has more, less, or nothing was shown."""
    if no_difference(difference):
        return "no difference shown"
    if difference.n < FEWEST:
        return "too few seeds to tell"
    return "more" if difference.lo is not None and difference.lo > 0 else "less"


class _Pool:
    """The values of all seeds in rising order, each with the place of its seed: a draw only weighs them."""

    def __init__(self, groups: Mapping[int, ArrayLike], seeds: list[int]) -> None:
        arrays = [np.asarray(groups[seed], np.float64).ravel() for seed in seeds]
        values = np.concatenate([np.empty(0), *arrays])
        places = np.repeat(np.arange(len(seeds)), [len(array) for array in arrays])
        order = np.argsort(values, kind="stable")
        self.values: Floats = values[order]
        self._places = places[order]

    def quantiles(self, q: float, counts: Counts) -> Floats:
        """The q-quantile (linear between values) of each draw; NaN for a draw without any value."""
        upto = counts[:, self._places].cumsum(axis=1)
        at = q * np.maximum(upto[:, -1] - 1, 0)
        low = np.floor(at).astype(np.int64)
        high = np.minimum(low + 1, np.maximum(upto[:, -1] - 1, 0))
        # The value of a rank among the drawn ones is the first whose cumulated count exceeds it.
        last = len(self.values) - 1
        below, above = (
            self.values[np.minimum((upto <= rank[:, None]).sum(axis=1), last)] for rank in (low, high)
        )
        found = below + (at - low) * (above - below)
        return np.where(upto[:, -1] > 0, found, np.nan)


def _shared(a: Mapping[int, object], b: Mapping[int, object]) -> list[int]:
    return sorted(a.keys() & b.keys())


def _draws(n: int, chunk: int) -> list[Counts]:
    """How often each of n seeds is drawn, a row a resample; always the same draws for the same n."""
    rng = np.random.default_rng(0)
    even = np.full(n, 1 / n)
    sizes = [min(chunk, _RESAMPLES - done) for done in range(0, _RESAMPLES, chunk)]
    return [rng.multinomial(n, even, size) for size in sizes]


def _ratios(counts: Counts, pairs: Floats) -> Floats:
    sums = counts @ pairs
    wholes = sums[:, 1]
    return np.divide(sums[:, 0], wholes, out=np.full(len(sums), np.nan), where=wholes > 0)


def _estimate(value: float, drawn: list[Floats], n: int, unit: str) -> Estimate:
    whole = np.concatenate(drawn)
    whole = whole[~np.isnan(whole)]  # a draw of episodes without a call has no figure to differ
    if n == 1 or not len(whole):
        return Estimate(value, None, None, n, unit, SHARED)
    lo, hi = np.quantile(whole, TAILS)
    return Estimate(value, float(lo), float(hi), n, unit, SHARED)


def _nothing(unit: str) -> Estimate:
    return Estimate(None, None, None, 0, unit, SHARED)
