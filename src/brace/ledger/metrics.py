"""The figures of a run. Each has one denominator and says it; latency kinds are never mixed in a figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

import polars as pl

from brace.ledger.intervals import NONE, Estimate, count, mean, quantile, rate, ratio
from brace.ledger.reader import Run
from brace.ledger.records import Fallback, Status

GATE_REASONS = ("cooldown", "commit", "in_flight")
UNSTATED = "unstated"
"""The gate reason of a trigger that was not honoured although no gate said so."""
OVERRIDES = ("hazard", "deadlock", "failures")

TRIGGERED = pl.col("triggers").list.len() > 0
SUPPRESSED = TRIGGERED & ~pl.col("replan")
GATE = pl.col("gate").fill_null(UNSTATED)
MISSED = (
    pl.col("missed")
    | pl.col("status").is_in(["cut", "shed"])
    | (pl.col("latency_ms") > pl.col("slo_ms")).fill_null(False)
)
"""Over its SLO, cut at it, or shed because it could no longer make it."""
CACHED = pl.col("mode") == "cached"
EXECUTED = ~pl.col("status").is_in(["shed", "over_budget", "cancelled"]) & ~CACHED
"""Only these calls have a latency worth comparing: shed and over-budget ones never reached the planner, and
one that was called off says nothing about how long it would have taken."""
PROMPTED = EXECUTED & (pl.col("tokens_after") > 0)
"""A call that was shed, served from a store or over budget sent no prompt: its 0 is no reduction."""
QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
"""Of latencies."""

_PROMPTED = "calls with a prompt"
_EXECUTED = "executed calls"


@dataclass(frozen=True, eq=False)
class Summary(Mapping[str, Estimate]):
    """The figures of a run by name, in the order of a table."""

    estimates: dict[str, Estimate]
    latency_kind: str
    """The kind of its latencies. Where there are several, their names carry it: `latency_p50.replayed`."""
    notes: tuple[str, ...]
    """What a reader of the figures must know."""

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)


def summarise(run: Run) -> Summary:
    """Every figure of section 2 of the design, for one run."""
    calls = run.calls
    episodes = per_episode(run)
    kinds = latency_kinds(run)
    prompted = calls.filter(PROMPTED)
    before, after = prompted["tokens_in"], prompted["tokens_after"]
    queued = pl.element().struct.field("ms").filter(pl.element().struct.field("name") == "replan.queue")
    triggered = run.steps.filter(TRIGGERED)
    held = triggered.filter(SUPPRESSED).select(GATE)["gate"]
    figures: dict[str, Estimate] = {
        "episodes": count(episodes.height, "episodes"),
        "success": success_rate(run),
        "calls": count(calls.height, "calls"),
        "calls_per_episode": mean(episodes["calls"], "calls", "episodes"),
        **_latencies("latency", calls.filter(EXECUTED), kinds, _EXECUTED),
        "miss_rate": miss_rate(run),
        "tokens_in": mean(before, "tokens", _PROMPTED),
        "tokens_after": mean(after, "tokens", _PROMPTED),
        "reduction": ratio(before - after, before, _PROMPTED),
        "bind_rate": rate(calls.filter(pl.col("budget") < pl.col("tokens_in")).height, calls.height, "calls"),
        "churn": rate(int(calls["changed"].sum()), calls.height, "calls"),
        "changes_per_episode": mean(episodes["changes"], "changes", "episodes"),
        "wait_per_episode": mean(episodes["wait_ms"], "ms", "episodes"),
        "queue_per_call": mean(
            calls.select(pl.col("phases").list.eval(queued).list.sum())["phases"], "ms", "calls"
        ),
        "suppressed": rate(len(held), triggered.height, "triggers"),
        **_shares("suppressed", held, GATE_REASONS, (triggered.height, "triggers")),
        **_shares("override", calls["override"], OVERRIDES),
        **_shares("fallback", calls["fallback"], get_args(Fallback)),
        **_shares("status", calls["status"], get_args(Status)),
        "cached": rate(calls.filter(CACHED).height, calls.height, "calls"),
        **_latencies("cached", calls.filter(CACHED), kinds, "calls served from a store"),
    }
    return Summary(figures, ", ".join(kinds) or NONE, tuple(caveats(run)))


def latency_kinds(run: Run) -> list[str]:
    """The kinds of a run's latencies."""
    return run.calls["kind"].unique().sort().to_list()


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """What one phase cost in the executed calls of one latency kind."""

    kind: str
    phase: str
    p50: Estimate
    p95: Estimate
    share: Estimate
    """Of the time of all phases. A part (`replan.decode`) is contained in its whole (`replan`)."""


def latency_table(run: Run) -> list[PhaseRow]:
    """Where the time went, phase by phase, in the order in which phases begin; one set of rows a kind."""
    rows = []
    executed = run.calls.filter(EXECUTED).with_row_index("call")
    for (kind,), calls in executed.group_by("kind", maintain_order=True):
        phases = _phases(calls)
        wholes = phases.filter(~pl.col("name").str.contains(".", literal=True))
        totals = wholes.group_by("call").agg(total=pl.col("ms").sum()).sort("call")
        order = phases.group_by("name").agg(pl.col("start_ms").mean()).sort("start_ms", "name")
        for name in order["name"]:
            times = phases.filter(pl.col("name") == name)
            paired = totals.join(times, on="call", how="left", maintain_order="left")
            rows.append(
                PhaseRow(
                    str(kind),
                    name,
                    quantile(times["ms"], 0.5, "ms", _EXECUTED),
                    quantile(times["ms"], 0.95, "ms", _EXECUTED),
                    # A call without this phase spent no time in it.
                    ratio(paired["ms"].fill_null(0.0), paired["total"], _EXECUTED),
                )
            )
    return rows


def _phases(calls: pl.DataFrame) -> pl.DataFrame:
    """One row a phase of a call; a phase entered several times is summed."""
    times = calls.select("call", "phases").explode("phases").unnest("phases")
    return (
        times.filter(pl.col("name").is_not_null())
        .group_by("call", "name")
        .agg(pl.col("start_ms").min(), pl.col("ms").sum())
        .sort("call", "name")
    )


def per_episode(run: Run) -> pl.DataFrame:
    """Calls, changes and wait of every episode, those of a live run that have no end yet included."""
    seen = pl.concat([table.select("episode").unique() for table in (run.episodes, run.steps, run.calls)])
    of_calls = run.calls.group_by("episode").agg(
        calls=pl.len(), changes=pl.col("changed").sum(), waited=pl.col("wait_ms").sum()
    )
    told = run.episodes.select("episode", "wait_ms")
    return (
        seen.unique()
        .join(of_calls, on="episode", how="left")
        .join(told, on="episode", how="left")
        .select(
            "episode",
            pl.col("calls", "changes").fill_null(0),
            # An episode that has no end yet has told no wait; its calls have.
            pl.coalesce("wait_ms", "waited", pl.lit(0.0)).alias("wait_ms"),
        )
        .sort("episode")
    )


def success_rate(run: Run) -> Estimate:
    """Successes over the episodes that were judged."""
    judged = run.episodes["success"].drop_nulls()
    return rate(int(judged.sum()), len(judged), "episodes judged")


def _latencies(name: str, calls: pl.DataFrame, kinds: list[str], of: str) -> dict[str, Estimate]:
    figures = {}
    for kind in kinds or [NONE]:
        times = calls.filter(pl.col("kind") == kind)["latency_ms"]
        suffix = f".{kind}" if len(kinds) > 1 else ""
        for label, q in QUANTILES:
            figures[f"{name}_{label}{suffix}"] = quantile(times, q, "ms", of)
    return figures


def miss_rate(run: Run) -> Estimate:
    """Misses over the calls that had an SLO."""
    bound = run.calls.filter(pl.col("slo_ms").is_not_null())
    return rate(bound.filter(MISSED).height, bound.height, "calls with an SLO")


def _shares(
    name: str, values: pl.Series, known: Iterable[str], of: tuple[int, str] | None = None
) -> dict[str, Estimate]:
    """One rate a value: the known ones always, so that a 0 is printed as 0, and whatever else occurs."""
    n, denominator = of or (len(values), "calls")
    counts: dict[str, int] = dict(values.drop_nulls().value_counts().iter_rows())
    names = [*known, *sorted(counts.keys() - set(known))]
    return {f"{name}.{value}": rate(counts.get(value, 0), n, denominator) for value in names}


def caveats(run: Run) -> Iterator[str]:
    """What a reader of the run's figures must know."""
    calls = run.calls
    if unbound := calls["slo_ms"].null_count():
        yield f"{unbound} of {calls.height} calls had no SLO: the miss rate leaves them out"
    if shed := calls.filter(pl.col("status") == "shed").height:
        yield f"{shed} of {calls.height} calls were shed: they are misses, and have no latency"
    if cached := calls.filter(CACHED).height:
        yield f"{cached} of {calls.height} calls were served from a store: they have their own latency row"
    if cold := calls.filter("cold").height:
        yield f"{cold} of {calls.height} calls were cold: their latencies include what is paid once"
    yield from run.notes
