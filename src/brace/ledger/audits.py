"""Why the figures are so: what suppression led to, which calls were late and why, whether the gate held."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from brace.ledger.intervals import Estimate, rate
from brace.ledger.metrics import GATE, GATE_REASONS, MISSED, SUPPRESSED
from brace.ledger.reader import Run

Outcome = Literal["recovered", "harmless", "harmful", "override"]
UNACCOUNTED = "unaccounted"
"""The time of a call that no phase claims."""


@dataclass(frozen=True, slots=True)
class SuppressionRow:
    """What came after the triggers that one gate reason suppressed."""

    reason: str
    segments: int
    recovered: int
    harmless: int
    harmful: int
    override: int
    """Segments with an override within the horizon; it goes with any of the three outcomes."""

    def share(self, outcome: Outcome) -> Estimate:
        """The share of segments with this outcome."""
        return rate(getattr(self, outcome), self.segments, "segments")


def suppression_audit(run: Run, horizon: int = 20) -> list[SuppressionRow]:
    """The outcome of suppressed triggers, a row for each gate reason.

    Consecutive steps of an episode suppressed for the same reason form a segment. Within `horizon` steps
    past its end, the episode's end permitting, it is `harmful` if a critical hazard, a deadlock trigger
    that was not on at its last step, or an unsuccessful end comes before an accepted plan; else
    `recovered` if a plan was accepted; else `harmless`. A step's signals are read before a plan takes
    effect in it, so harm in the step of the plan's arrival came first; the end of an episode comes last.
    """
    segments = _segments(run.steps)
    final = run.steps.group_by("episode").agg(final=pl.col("t").max())
    # Success is null where it was not judged, or the episode is not over.
    ends = final.join(run.episodes.select("episode", "success"), on="episode", how="left")
    accepted = run.calls.filter(pl.col("status").is_in(["ok", "partial"]))
    ahead = (
        segments.join(ends, on="episode", how="left", maintain_order="left")
        .pipe(_next, run.steps.filter("critical"), "t", "hazard", horizon)
        .pipe(_next, run.steps.filter(_DEADLOCK), "t", "jam", horizon)
        .pipe(_next, run.steps.filter(pl.col("override").is_not_null()), "t", "overridden", horizon)
        .pipe(_next, accepted.sort("episode", "t_end"), "t_end", "plan", horizon)
    )
    jam = pl.when(~pl.col("jammed")).then("jam")
    plan = pl.when(pl.col("plan") <= pl.col("final")).then("plan")
    harm = pl.min_horizontal("hazard", jam)
    failed = (pl.col("success") == False) & (pl.col("final") - pl.col("t") <= horizon)  # noqa: E712
    judged = ahead.select(
        "reason",
        override=pl.col("overridden").is_not_null(),
        planned=plan.is_not_null(),
        harmful=((harm <= plan) | (plan.is_null() & (harm.is_not_null() | failed))).fill_null(False),
    ).with_columns(
        recovered=pl.col("planned") & ~pl.col("harmful"),
        harmless=~pl.col("planned") & ~pl.col("harmful"),
    )
    names = ("recovered", "harmless", "harmful", "override")
    counts = judged.group_by("reason").agg(pl.len(), *(pl.col(name).sum() for name in names))
    rows = [SuppressionRow(*row) for row in counts.select("reason", "len", *names).iter_rows()]
    ranks = {reason: rank for rank, reason in enumerate(GATE_REASONS)}
    return sorted(rows, key=lambda row: (ranks.get(row.reason, len(ranks)), row.reason))


_DEADLOCK = pl.col("triggers").list.contains("deadlock")


def _segments(steps: pl.DataFrame) -> pl.DataFrame:
    """One row a segment: its last step `t`, and whether a deadlock trigger was on then."""
    suppressed = steps.filter(SUPPRESSED).select("episode", "t", reason=GATE, jammed=_DEADLOCK)
    goes_on = (
        (pl.col("episode") == pl.col("episode").shift(-1))
        & (pl.col("t") + 1 == pl.col("t").shift(-1))
        & (pl.col("reason") == pl.col("reason").shift(-1))
    )
    return suppressed.filter(~goes_on.fill_null(False))


def _next(segments: pl.DataFrame, events: pl.DataFrame, at: str, name: str, horizon: int) -> pl.DataFrame:
    """Add the step of the first event past each segment's end, within the horizon: a merge of sorted rows."""
    return segments.join_asof(
        events.select("episode", pl.col(at).alias(name)),
        left_on="t", right_on=name, by="episode", strategy="forward",
        # Each episode is sorted, which is all this join needs; with a `by` polars cannot check it.
        tolerance=horizon, allow_exact_matches=False, coalesce=False, check_sortedness=False,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class LateCall:
    """A slow call and where its time went."""

    episode: int
    index: int
    t: int
    kind: str
    status: str
    missed: bool
    latency_ms: float
    slo_ms: float | None
    phases: dict[str, float]
    """ms by phase, as logged; parts of a phase stand beside it."""
    dominant: str
    """The phase, or the part of one, that took the most time by itself."""
    dominant_ms: float
    record: Mapping[str, Any]
    """All that was logged of it."""


def worst_calls(run: Run, n: int) -> list[LateCall]:
    """The n worst calls: those that missed their SLO first, and the slowest first among equals."""
    worst = run.calls.with_columns(MISSED.alias("missed")).sort(
        "missed", "latency_ms", descending=True, maintain_order=True
    )
    return [_late(row) for row in worst.head(n).iter_rows(named=True)]


def _late(call: dict[str, Any]) -> LateCall:
    phases: dict[str, float] = {}
    for phase in call["phases"]:
        phases[phase["name"]] = phases.get(phase["name"], 0.0) + phase["ms"]
    # What was before the call is no part of its latency.
    inside = [phase for phase in call["phases"] if phase["start_ms"] >= 0]
    alone = own_times(inside)
    alone[UNACCOUNTED] = call["latency_ms"] - sum(p["ms"] for p in inside if "." not in p["name"])
    dominant = max(alone, key=lambda name: alone[name])
    fields = ("episode", "index", "t", "kind", "status", "missed", "latency_ms", "slo_ms")
    return LateCall(
        **{name: call[name] for name in fields}, phases=phases, dominant=dominant,
        dominant_ms=alone[dominant], record=call,
    )  # fmt: skip


def own_times(phases: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """ms by phase, a whole reduced by its parts: `replan` is what queue, prefill and decode leave of it."""
    own: dict[str, float] = {}
    for phase in phases:
        name, ms = phase["name"], phase["ms"]
        own[name] = own.get(name, 0.0) + ms
        if whole := name.rpartition(".")[0]:
            own[whole] = own.get(whole, 0.0) - ms
    # Parts are timed by themselves and may add up to a little more than their whole.
    return {name: max(ms, 0.0) for name, ms in own.items()}


@dataclass(frozen=True, slots=True)
class Breach:
    """Two calls, or two plan changes, closer than the controller promised, and no override to excuse it."""

    rule: Literal["cooldown", "commit"]
    episode: int
    index: int
    """The later call."""
    t: int
    gap: int
    least: int


def anti_churn(run: Run, cooldown: int, commit: int) -> list[Breach]:
    """Check the log: calls at least `cooldown` (δ) steps apart, plan changes at least `commit` (ω)."""
    changes = run.calls.filter("changed")
    breaches = _too_close(run.calls, "t", "cooldown", cooldown) + _too_close(
        changes, "t_end", "commit", commit
    )
    return sorted(breaches, key=lambda breach: (breach.episode, breach.t, breach.index))


def _too_close(calls: pl.DataFrame, at: str, rule: Literal["cooldown", "commit"], least: int) -> list[Breach]:
    gaps = calls.sort("episode", at, "index").select(
        "episode", "index", at, "override", gap=pl.col(at).diff().over("episode")
    )
    close = gaps.filter((pl.col("gap") < least) & pl.col("override").is_null())
    rows = close.select("episode", "index", at, "gap").iter_rows()
    return [Breach(rule, episode, index, t, gap, least) for episode, index, t, gap in rows]
