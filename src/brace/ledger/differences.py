"""The figures of a run less those of a baseline, over the seeds both have; named as `metrics` names them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import polars as pl

from brace.ledger.intervals import SHARE, Estimate
from brace.ledger.metrics import EXECUTED, MISSED, PROMPTED, QUANTILES, latency_kinds, per_episode
from brace.ledger.paired import difference_of_quantiles, difference_of_rates, paired_difference
from brace.ledger.reader import Run

FIGURE = "figure."
"""What the columns of the world's own figures begin with."""


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
