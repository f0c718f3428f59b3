"""Plots of runs side by side, each drawn on the axes it is given; nothing here knows pyplot.

Each returns what its caption has to say about what is drawn, or left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from brace.ledger.metrics import EXECUTED, MISSED
from brace.ledger.reader import Run
from brace.report import style
from brace.report.calls import own_times
from brace.report.rows import number

MOST_POINTS = 2_000
"""Of a plot: beyond it, points are thinned, evenly by rank and with both ends kept."""
_MOST_SLOS = 3
_SLIVER = 0.015
_ROOM = 0.13
_PHASES = {
    "clarify": style.PURPLE, "context_compress": style.GREEN, "retrieve": style.OLIVE,
    "replan.queue": "#9a9ea6", "replan.prefill": style.BLUE, "replan.decode": style.SKY,
    "replan": "#4d6fa8", "execute": style.ORANGE,
}  # fmt: skip
_REST = "#b9bcc2"
_NO_CALLS = "no executed calls"

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Series:
    """The executed calls of one run that share a latency kind: what one line or bar shows."""

    name: str
    position: int
    calls: pl.DataFrame


def series(runs: Mapping[str, Run]) -> list[Series]:
    """One a run; one a run and kind where there are several kinds, which are never mixed."""
    names = style.short_names(runs)
    executed = {label: run.calls.filter(EXECUTED) for label, run in runs.items()}
    mixed = len(kinds(runs)) > 1
    found = []
    for position, (label, calls) in enumerate(executed.items()):
        for (kind,), same in calls.group_by("kind", maintain_order=True):
            found.append(Series(f"{names[label]} ({kind})" if mixed else names[label], position, same))
    return found


def kinds(runs: Mapping[str, Run]) -> list[str]:
    """The latency kinds of the executed calls."""
    return sorted({kind for run in runs.values() for kind in run.calls.filter(EXECUTED)["kind"].unique()})


def thin(values: Sequence[float] | NDArray[np.float64], most: int) -> Indices:
    """Which points to draw, in rising order: all, or at most `most`, evenly by rank, the ends kept."""
    order = np.argsort(np.asarray(values), kind="stable")
    if len(order) <= most:
        return order
    return order[np.linspace(0, len(order) - 1, max(most, 2)).round().astype(np.intp)]


def cdf(values: Sequence[float] | NDArray[np.float64], most: int) -> tuple[NDArray[np.float64], ...]:
    """The points of the empirical distribution function: a value, and the share of values up to it."""
    ranks = thin(np.arange(len(values)), most)
    return np.sort(np.asarray(values, dtype=np.float64))[ranks], (ranks + 1) / len(values)


@mpl.rc_context(style.STYLE)
def latency_cdf(axes: Axes, runs: Mapping[str, Run], most: int = MOST_POINTS) -> list[str]:
    """How many calls were done within a time: one line a run, and the SLOs."""
    drawn = series(runs)
    if not drawn:
        style.nothing(axes, _NO_CALLS)
        return [_NO_CALLS]
    share = max(2, most // len(drawn))
    for one in drawn:
        x, y = cdf(one.calls["latency_ms"].to_numpy(), share)
        axes.step(
            np.insert(x, 0, x[0]), np.insert(y, 0, 0.0), where="post", label=f"{one.name}, n = {len(one.calls)}",
            color=style.colour(one.position), linestyle=style.dashes(one.position), linewidth=1.8,
        )  # fmt: skip
    _slos(axes, runs, axes.axvline)
    axes.set_xlabel(_latency_label(axes.set_xscale, drawn, runs))
    axes.set_ylabel("calls done, %")
    axes.set_yticks(np.linspace(0, 1, 5), ["0", "25", "50", "75", "100"])
    axes.set_ylim(0, 1.02)
    axes.legend(loc="lower right", handlelength=1.4)
    style.grid(axes, "y")
    return _thinned(sum(len(one.calls) for one in drawn), sum(min(share, len(one.calls)) for one in drawn))


@mpl.rc_context(style.STYLE)
def phase_stack(axes: Axes, runs: Mapping[str, Run]) -> list[str]:
    """The mean ms of each phase, stacked, a bar a run; the parts of `replan` in its place."""
    drawn = series(runs)
    means = [_mean_phases(one.calls) for one in drawn]
    totals = [sum(of_run.values()) for of_run in means]
    widest = max(totals, default=0.0)
    if not widest:
        style.nothing(axes, "no executed call has phases" if drawn else _NO_CALLS)
        return ["no executed call has phases" if drawn else _NO_CALLS]
    names = dict.fromkeys(name for of_run in means for name in of_run)
    large = [name for name in names if any(of_run.get(name, 0) > _SLIVER * widest for of_run in means)]
    slivers = [name for name in names if name not in large]
    keyed = {}
    for y, (of_run, total) in enumerate(zip(means, totals, strict=True)):
        left = 0.0
        for name in (*large, ""):
            ms = of_run.get(name, 0.0) if name else total - left
            shade = _PHASES.get(name, _REST)
            axes.barh(y, ms, left=left, height=0.56, color=shade)
            if ms > _ROOM * widest:
                words = name.rpartition(".")[2] or "the rest"
                axes.text(left + ms / 2, y, f"{words} {number(ms)}", ha="center", va="center", color="white")
            elif ms > 0.001 * widest:
                keyed[name or "the rest"] = shade
            left += ms
        axes.text(left + 0.015 * widest, y, f"{number(total)} ms", va="center")
    axes.set_yticks(range(len(drawn)), [one.name for one in drawn])
    axes.set_ylim(len(drawn) - 0.5, -0.5)
    axes.set_xlim(0, 1.16 * widest)
    axes.set_xlabel(f"mean of executed calls, ms ({_kinds(runs)})")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    style.grid(axes, "x")
    if keyed:
        handles = [Line2D([], [], color=shade, linewidth=6) for shade in keyed.values()]
        axes.legend(
            handles, list(keyed), loc="upper left", bbox_to_anchor=(0, -0.32 / axes.figure.get_figheight() * 2),
            ncols=2, handlelength=0.8, borderpad=0,
        )  # fmt: skip
    return [f"“The rest” are {', '.join(slivers)}, below 1.5 % of the longest bar each"] if slivers else []


@mpl.rc_context(style.STYLE)
def tokens_scatter(axes: Axes, runs: Mapping[str, Run], most: int = MOST_POINTS) -> list[str]:
    """Latency over the tokens the planner worked on; faint: the same calls at their uncut prompt."""
    drawn = [
        Series(one.name, one.position, prompted)
        for one in series(runs)
        if not (prompted := one.calls.filter(pl.col("tokens_after") > 0)).is_empty()
    ]
    if not drawn:
        style.nothing(axes, "no executed call had a prompt")
        return ["no executed call had a prompt"]
    share = max(2, most // len(drawn))
    shown = 0
    for one in drawn:
        chosen = one.calls[thin(one.calls["latency_ms"].to_numpy(), share)].with_columns(missed=MISSED)
        shown += len(chosen)
        shade = style.colour(one.position)
        cut = chosen.filter(pl.col("tokens_in") != pl.col("tokens_after"))
        axes.plot(cut["tokens_in"], cut["latency_ms"], "o", ms=2.6, mec="none", color=shade, alpha=0.25)
        for missed, marker, size in ((False, "o", 4.0), (True, "x", 6.0)):
            part = chosen.filter(pl.col("missed") == missed)
            axes.plot(
                part["tokens_after"], part["latency_ms"], marker, ms=size, color=shade,
                mec=shade if missed else "none", mew=1.6, alpha=1.0 if missed else 0.75,
            )  # fmt: skip
    _slos(axes, runs, axes.axhline)
    axes.set_ylabel(_latency_label(axes.set_yscale, drawn, runs))
    axes.set_xlabel("tokens after reduction (faint: before)")
    axes.set_xlim(left=0)
    handles = [Line2D([], [], marker="o", ls="", ms=5, color=style.colour(one.position)) for one in drawn]
    handles.append(Line2D([], [], marker="x", ls="", ms=6, mew=1.6, color=style.INK))
    names = [*(one.name for one in drawn), "missed its SLO"]
    axes.legend(
        handles, names, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=min(3, len(names)), handletextpad=0.2,
        columnspacing=1.0, borderpad=0,
    )  # fmt: skip
    style.grid(axes, "y")
    return _thinned(sum(len(one.calls) for one in drawn), shown)


def _mean_phases(calls: pl.DataFrame) -> dict[str, float]:
    """Mean ms of each phase over all calls, in the order in which phases begin."""
    begins: dict[str, float] = {}
    sums: dict[str, float] = {}
    for phases in calls["phases"]:
        for phase in phases:
            begins[phase["name"]] = min(phase["start_ms"], begins.get(phase["name"], np.inf))
        for name, ms in own_times(phases).items():
            sums[name] = sums.get(name, 0.0) + ms
    return {name: sums[name] / len(calls) for name in sorted(sums, key=lambda name: begins.get(name, 0.0))}
