"""The columns of a suite's table: figures of a run, and some that need its steps, baseline or paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from brace.errors import ConfigError, UnknownNameError
from brace.ledger.audits import anti_churn
from brace.ledger.intervals import SHARE, Estimate, count, mean, rate, rate_deviance
from brace.ledger.metrics import EXECUTED, SUPPRESSED, TRIGGERED, Summary
from brace.ledger.reader import Run
from brace.report.rows import Cell, Column

GENERAL = (
    "success", "calls_per_episode", "latency_p50", "latency_p95", "miss_rate", "tokens_after", "churn",
)  # fmt: skip
"""The columns of a suite that names none."""
FIGURE, TRIGGER, PHASE, PAPER = "figure.", "trigger.", "phase.", "paper."
CHI_SQUARED_95 = 3.841
"""What the deviance of two equal rates exceeds once in twenty times."""
_OVER = "executed calls"


@dataclass(frozen=True)
class Shown:
    """A run, its figures, and what they are held against."""

    run: Run
    summary: Summary
    baseline: Run | None = None
    reported: Mapping[str, Any] = field(default_factory=dict)
    """What the paper reports for this row, by column."""
    paper_episodes: int | None = None

    def deviance(self, name: str) -> float | None:
        """How far a rate of ours and the paper's lie from one common rate; None where either is missing."""
        ours = cell_of(name, self)
        if name not in self.reported or self.paper_episodes is None or not isinstance(ours, Estimate):
            return None
        if ours.value is None or ours.unit != SHARE:
            return None
        # The paper's rates are rounded; the count behind one is a whole number.
        theirs = round(self.reported[name] / 100 * self.paper_episodes)
        return rate_deviance(theirs, self.paper_episodes, round(ours.value * ours.n), ours.n)


Make = Callable[[Shown], Cell]
_HEADERS = {
    "success": "success, %", "tokens_in": "tokens in", "tokens_after": "tokens after",
    "reduction": "reduction, %", "bind_rate": "bound, %", "latency_p50": "P50, ms", "latency_p95": "P95, ms",
    "latency_p99": "P99, ms", "miss_rate": "missed, %", "churn": "churn, %", "suppressed": "suppressed, %",
    "calls_per_episode": "calls / episode", "changes_per_episode": "changes / episode",
    "wait_per_episode": "wait / episode, ms",
}  # fmt: skip


def check_columns(names: Iterable[str], paper_episodes: int | None = None) -> None:
    """Refuse a column there is none of, and a comparison that nothing can be held against."""
    for name in names:
        plain = name.removeprefix(PAPER)
        if plain not in _HEADERS and plain not in _SPECIAL and not plain.startswith((FIGURE, TRIGGER, PHASE)):
            raise UnknownNameError("column", plain, [*_HEADERS, *_SPECIAL])
        if name != plain and paper_episodes is None:
            raise ConfigError(f"column {name!r} needs `paper_episodes`: how many a row of the paper has")


def column_of(name: str) -> Column:
    """Its heading."""
    for prefix, heading in (
        (FIGURE, "{} / episode"), (TRIGGER, "{}, %"), (PHASE, "{}, ms"), (PAPER, "{} as in the paper")
    ):  # fmt: skip
        if name.startswith(prefix):
            rest = name.removeprefix(prefix)
            return Column(heading.format(rest if prefix == TRIGGER else rest.replace("_", " ")), right=True)
    return Column(_SPECIAL[name][0] if name in _SPECIAL else _HEADERS[name], right=True)


def cell_of(name: str, shown: Shown) -> Cell:
    """The figure of this run; None where it has none."""
    if name.startswith(PAPER):
        deviance = shown.deviance(name.removeprefix(PAPER))
        return None if deviance is None else "yes" if deviance <= CHI_SQUARED_95 else "no"
    for prefix, make in ((FIGURE, _of_the_world), (TRIGGER, _share_of_triggers), (PHASE, _mean_of_phase)):
        if name.startswith(prefix):
            return make(name.removeprefix(prefix), shown.run)
    if name in _SPECIAL:
        return _SPECIAL[name][1](shown)
    if name not in shown.summary and any(known.startswith(f"{name}.") for known in shown.summary):
        return "several kinds"  # of latency: there is no one percentile to show
    return shown.summary.get(name)


def _of_the_world(name: str, run: Run) -> Cell:
    if f"{FIGURE}{name}" not in run.episodes.columns:
        return None
    return mean(run.episodes[f"{FIGURE}{name}"].drop_nulls(), "", "finished episodes")


def _share_of_triggers(name: str, run: Run) -> Cell:
    honoured = run.steps.filter(TRIGGERED & pl.col("replan"))
    return rate(honoured.filter(pl.col("triggers").list.contains(name)).height, honoured.height, "honoured")


def _mean_of_phase(name: str, run: Run) -> Cell:
    phase = pl.element().struct.field("ms").filter(pl.element().struct.field("name") == name)
    times = run.calls.filter(EXECUTED).select(pl.col("phases").list.eval(phase).list.sum())["phases"]
    return mean(times, "ms", _OVER)


def _suppressed_per_episode(shown: Shown) -> Cell:
    held = shown.run.steps.filter(SUPPRESSED).group_by("episode").len()
    joined = shown.run.episodes.select("episode").join(held, on="episode", how="left")
    return mean(joined["len"].fill_null(0), "triggers", "episodes")


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
    "honoured": (
        "triggers honoured",
        lambda shown: count(shown.run.steps.filter(TRIGGERED & pl.col("replan")).height, "triggers"),
    ),
    "suppressed_per_episode": ("suppressed / episode", _suppressed_per_episode),
    "tokens_read": (
        "tokens read",
        lambda shown: mean(shown.run.calls.filter(EXECUTED)["tokens_read"], "tokens", _OVER),
    ),
    "latency_mean": (
        "mean, ms",
        lambda shown: mean(shown.run.calls.filter(EXECUTED)["latency_ms"], "ms", _OVER),
    ),
    "speedup": ("speedup, ×", _speedup),
    "bounds": ("bounds", _bounds),
}
