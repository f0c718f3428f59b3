"""The columns of a suite's table: figures of a run, and some that need its steps, phases or baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import polars as pl

from brace.errors import UnknownNameError
from brace.ledger.audits import anti_churn
from brace.ledger.intervals import Estimate, count, mean, rate
from brace.ledger.metrics import EXECUTED, SUPPRESSED, TRIGGERED, Summary, summarise
from brace.ledger.reader import Run
from brace.report.rows import Cell, Column

FIGURE, TRIGGER, PHASE = "figure.", "trigger.", "phase."
_OVER = "executed calls"


@dataclass(frozen=True)
class Shown:
    """A run, its figures, and the run it is compared with."""

    run: Run
    summary: Summary
    baseline: Run | None

    @classmethod
    def of(cls, run: Run, baseline: Run | None) -> Shown:
        """With the run's figures computed."""
        return cls(run, summarise(run), baseline)


Make = Callable[[Shown], Cell]
_HEADERS = {
    "success": "success, %", "tokens_in": "tokens in", "tokens_after": "tokens after",
    "reduction": "reduction, %", "bind_rate": "bound, %", "latency_p50": "P50, ms", "latency_p95": "P95, ms",
    "latency_p99": "P99, ms", "miss_rate": "missed, %", "churn": "churn, %", "suppressed": "suppressed, %",
    "calls_per_episode": "calls / episode", "changes_per_episode": "changes / episode",
    "wait_per_episode": "wait / episode, ms",
}  # fmt: skip


def check_columns(names: Iterable[str]) -> None:
    """Refuse a column there is none of."""
    for name in names:
        if name not in _HEADERS and name not in _SPECIAL and not name.startswith((FIGURE, TRIGGER, PHASE)):
            raise UnknownNameError("column", name, [*_HEADERS, *_SPECIAL])


def column_of(name: str) -> Column:
    """Its heading."""
    if name.startswith(FIGURE):
        return Column(f"{name.removeprefix(FIGURE).replace('_', ' ')} / episode", right=True)
    if name.startswith(TRIGGER):
        return Column(f"{name.removeprefix(TRIGGER)}, %", right=True)
    if name.startswith(PHASE):
        return Column(f"{name.removeprefix(PHASE).replace('_', ' ')}, ms", right=True)
    return Column(_SPECIAL[name][0] if name in _SPECIAL else _HEADERS[name], right=True)


def cell_of(name: str, shown: Shown) -> Cell:
    """The figure of this run; None where it has none."""
    if name.startswith(FIGURE):
        return _of_the_world(name, shown.run)
    if name.startswith(TRIGGER):
        return _share_of_triggers(name.removeprefix(TRIGGER), shown.run)
    if name.startswith(PHASE):
        return _mean_of_phase(name.removeprefix(PHASE), shown.run)
    if name in _SPECIAL:
        return _SPECIAL[name][1](shown)
    return shown.summary.get(name)


def _of_the_world(name: str, run: Run) -> Cell:
    if name not in run.episodes.columns:
        return None
    return mean(run.episodes[name].drop_nulls(), "", "finished episodes")


def _share_of_triggers(name: str, run: Run) -> Cell:
    honoured = run.steps.filter(TRIGGERED & pl.col("replan"))
    return rate(honoured.filter(pl.col("triggers").list.contains(name)).height, honoured.height, "honoured")


def _mean_of_phase(name: str, run: Run) -> Cell:
    phase = pl.element().struct.field("ms").filter(pl.element().struct.field("name") == name)
    times = run.calls.filter(EXECUTED).select(pl.col("phases").list.eval(phase).list.sum())["phases"]
    return mean(times, "ms", _OVER)


def _honoured(shown: Shown) -> Cell:
    return count(shown.run.steps.filter(TRIGGERED & pl.col("replan")).height, "triggers")


def _suppressed_per_episode(shown: Shown) -> Cell:
    held = shown.run.steps.filter(SUPPRESSED).group_by("episode").len()
    joined = shown.run.episodes.select("episode").join(held, on="episode", how="left")
    return mean(joined["len"].fill_null(0), "triggers", "episodes")


def _tokens_read(shown: Shown) -> Cell:
    return mean(shown.run.calls.filter(EXECUTED)["tokens_read"], "tokens", _OVER)


def _mean_latency(shown: Shown) -> Cell:
    return mean(shown.run.calls.filter(EXECUTED)["latency_ms"], "ms", _OVER)


def _speedup(shown: Shown) -> Cell:
    """The baseline's mean latency over this one's; calls are not the same ones, so without an interval."""
    if shown.baseline is None:
        return None
    ours, theirs = (
        run.calls.filter(EXECUTED)["latency_ms"].to_numpy() for run in (shown.run, shown.baseline)
    )
    if not len(ours) or not len(theirs):
        return None
    return Estimate(float(theirs.mean() / ours.mean()), None, None, len(ours), "×", _OVER)


def _bounds(shown: Shown) -> Cell:
    """Whether calls and changes kept the distances that the controller promises."""
    controller = shown.run.manifest.config.get("controller", {})
    breaches = anti_churn(shown.run, int(controller.get("cooldown", 0)), int(controller.get("commit", 0)))
    return f"{len(breaches)} broken" if breaches else "held"


_SPECIAL: dict[str, tuple[str, Make]] = {
    "honoured": ("triggers honoured", _honoured),
    "suppressed_per_episode": ("suppressed / episode", _suppressed_per_episode),
    "tokens_read": ("tokens read", _tokens_read),
    "latency_mean": ("mean, ms", _mean_latency),
    "speedup": ("speedup, ×", _speedup),
    "bounds": ("bounds", _bounds),
}
