"""Plots of runs side by side, each drawn on the axes it is given; nothing here knows pyplot.

Each returns what its caption has to say about what is drawn, or left out.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter
from numpy.typing import ArrayLike, NDArray

from brace.ledger.audits import own_times
from brace.ledger.metrics import EXECUTED, MISSED
from brace.ledger.reader import Run
from brace.report import style
from brace.report.rows import number

MOST_POINTS = 2_000
"""Of a plot: beyond it, points are thinned, evenly by rank and with both ends kept."""
_MOST_SLOS = 3
_SLIVER = 0.015
_LETTER = 0.0185  # of the longest bar: the room that a letter takes
_TAIL = 20
# An SLO more than so many times the slowest call would squeeze the calls into a corner.
_BEYOND = 3
_PHASES = {
    "clarify": style.PURPLE, "context_compress": style.GREEN, "retrieve": style.OLIVE,
    "replan.queue": "#7f848d", "replan.prefill": style.BLUE, "replan.decode": style.SKY,
    "replan": "#4d6fa8", "execute": style.ORANGE,
}  # fmt: skip
_REST = "#b9bcc2"
_LIGHT = (style.SKY, _REST)
_OTHERS = "the rest"
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


def thin(values: ArrayLike, most: int) -> Indices:
    """Which points to draw, in rising order: all, or at most `most`, evenly by rank, the ends kept."""
    order = np.argsort(np.asarray(values), kind="stable")
    if len(order) <= most:
        return order
    return order[np.linspace(0, len(order) - 1, max(most, 2)).round().astype(np.intp)]


def cdf(values: ArrayLike, most: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The points of the empirical distribution function: a value, and the share of values up to it."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    ranks = thin(ordered, most)
    return ordered[ranks], (ranks + 1) / len(ordered)


def key_rows(runs: Mapping[str, Run]) -> int:
    """How many lines the key of a plot takes above its axes."""
    return style.key_rows([*(one.name for one in series(runs)), "missed its SLO"])


@mpl.rc_context(style.STYLE)
def latency_cdf(axes: Axes, runs: Mapping[str, Run], most: int = MOST_POINTS) -> list[str]:
    """How many calls were done within a time: one line a run, and the SLOs."""
    drawn = series(runs)
    if not drawn:
        style.nothing(axes, _NO_CALLS)
        return [_NO_CALLS]
    share = _share(drawn, most)
    handles = []
    for one in drawn:
        x, y = cdf(one.calls["latency_ms"].to_numpy(), share)
        handles += axes.step(
            # The first step rises from 0, not from the first call's share.
            np.insert(x, 0, x[0]), np.insert(y, 0, 0.0), where="post", linewidth=1.8,
            color=style.colour(one.position), linestyle=style.dashes(one.position),
            gid=style.series_mark(one.position),
        )  # fmt: skip
    names = [f"{one.name}, n = {len(one.calls)}" for one in drawn]
    style.key(axes, handles, names, [one.position for one in drawn])
    beyond = _slos(axes, runs, drawn, upright=True)
    _scale(axes, True, drawn, runs)
    axes.set_ylabel("calls done, %")
    axes.set_yticks(np.linspace(0, 1, 5), ["0", "25", "50", "75", "100"])
    axes.set_ylim(0, 1.02)
    style.grid(axes, "y")
    return [*beyond, *_thinned(drawn, share)]


@mpl.rc_context(style.STYLE)
def phase_stack(axes: Axes, runs: Mapping[str, Run]) -> list[str]:
    """The mean ms of each phase, stacked, a bar a run; the parts of `replan` in its place."""
    drawn = series(runs)
    means = [_mean_phases(one.calls) for one in drawn]
    totals = [sum(of_run.values()) for of_run in means]
    widest = max(totals, default=0.0)
    if not widest:
        why = "no executed call has phases" if drawn else _NO_CALLS
        style.nothing(axes, why)
        return [why]
    names = dict.fromkeys(name for of_run in means for name, ms in of_run.items() if ms > 0)
    large = [name for name in names if any(of_run.get(name, 0) > _SLIVER * widest for of_run in means)]
    slivers = [name for name in names if name not in large]
    keyed = {}
    for y, (one, of_run, total) in enumerate(zip(drawn, means, totals, strict=True)):
        left, mark = 0.0, style.series_mark(one.position)
        # The last, without a name, is all the slivers together.
        for name in (*large, ""):
            ms = of_run.get(name, 0.0) if name else total - left
            shade = _PHASES.get(name, _REST)
            axes.barh(y, ms, left=left, height=0.46, color=shade, gid=mark)
            words = f"{name.rpartition('.')[2] or _OTHERS} {number(ms)}"
            if ms > _LETTER * widest * len(words):
                ink = "black" if shade in _LIGHT else "white"
                axes.text(left + ms / 2, y, words, ha="center", va="center", color=ink, gid=mark)
            elif ms > 0.001 * widest:
                keyed[name or _OTHERS] = shade
            left += ms
        axes.text(0, y - 0.28, one.name, va="bottom", gid=mark)
        words = f"{number(total)} ms" if total else "no phases"
        axes.text(left + 0.015 * widest, y, words, va="center", gid=mark)
    axes.set_yticks([])
    axes.set_ylim(len(drawn) - 0.65, -0.65)
    # Room for the total at the end of the longest bar.
    axes.set_xlim(0, 1.16 * widest)
    axes.set_xlabel(f"mean of executed calls, ms ({_kinds(runs)})")
    axes.spines["left"].set_visible(False)
    style.grid(axes, "x")
    if keyed:
        handles = [Line2D([], [], color=shade, linewidth=6) for shade in keyed.values()]
        style.key(axes, handles, list(keyed))
    return [f"“{_OTHERS}”: {', '.join(slivers)}, each below 1.5 % of the longest bar"] if slivers else []


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
    share = _share(drawn, most)
    for one in drawn:
        chosen = one.calls[thin(one.calls["latency_ms"].to_numpy(), share)].with_columns(missed=MISSED)
        shade, mark = style.colour(one.position), style.series_mark(one.position)
        cut = chosen.filter(pl.col("tokens_in") != pl.col("tokens_after"))
        axes.plot(
            cut["tokens_in"], cut["latency_ms"], "o", ms=2.6, mec="none", color=shade, alpha=0.35, gid=mark
        )
        for missed, marker, size in ((False, "o", 4.0), (True, "x", 6.0)):
            part = chosen.filter(pl.col("missed") == missed)
            axes.plot(
                part["tokens_after"], part["latency_ms"], marker, ms=size, color=shade,
                mec=shade if missed else "none", mew=1.6, alpha=1.0 if missed else 0.75,
                gid=mark,
            )  # fmt: skip
    beyond = _slos(axes, runs, drawn, upright=False)
    _scale(axes, False, drawn, runs)
    axes.set_xlabel("tokens after reduction (faint: before)")
    axes.set_xlim(left=0)
    handles = [Line2D([], [], marker="o", ls="", ms=5, color=style.colour(one.position)) for one in drawn]
    handles.append(Line2D([], [], marker="x", ls="", ms=6, mew=1.6, color=style.INK))
    names = [*(one.name for one in drawn), "missed its SLO"]
    style.key(axes, handles, names, [one.position for one in drawn])
    style.grid(axes, "y")
    return [*beyond, *_thinned(drawn, share)]


def _mean_phases(calls: pl.DataFrame) -> dict[str, float]:
    """Mean ms of each phase over all calls, in the order in which phases begin."""
    times = calls.select("phases").explode("phases").unnest("phases").filter(pl.col("name").is_not_null())
    sums = times.group_by("name").agg(pl.col("ms").sum(), pl.col("start_ms").mean()).sort("start_ms", "name")
    return {name: ms / len(calls) for name, ms in own_times(sums.iter_rows(named=True)).items()}


def _slos(axes: Axes, runs: Mapping[str, Run], drawn: list[Series], *, upright: bool) -> list[str]:
    """The SLOs as dotted lines with their values; of many (overrides relax them) the least and the most."""
    found = sorted({slo for run in runs.values() for slo in run.calls["slo_ms"].drop_nulls().unique()})
    reach = _BEYOND * max(one.calls["latency_ms"].to_numpy().max() for one in drawn)
    inside = [slo for slo in found if slo <= reach]
    shown = inside if len(inside) <= _MOST_SLOS else [inside[0], inside[-1]]
    line = axes.axvline if upright else axes.axhline
    for place, slo in enumerate(shown):
        line(slo, color=style.INK, linestyle=(0, (1, 1.6)), linewidth=1.2, alpha=0.8)
        words = f"SLO {number(slo)}"
        if upright:
            # Neighbours take turns in height, so that close SLOs stay legible.
            axes.text(
                slo, 0.03 + 0.24 * (place % 2), words, transform=axes.get_xaxis_transform(),
                fontsize=8.5, rotation=90, ha="right", va="bottom",
            )  # fmt: skip
        else:
            axes.text(
                1, slo, words, transform=axes.get_yaxis_transform(), fontsize=8.5, ha="right", va="bottom"
            )
    far = [number(slo) for slo in found if slo > reach]
    return [f"the SLO of {', '.join(far)} ms lies far beyond the axis"] if far else []


def _scale(axes: Axes, upright: bool, drawn: list[Series], runs: Mapping[str, Run]) -> None:
    """Name the latency axis, and make it logarithmic where a few calls would squeeze all others."""
    times = np.concatenate([one.calls["latency_ms"].to_numpy() for one in drawn])
    log = times.min() > 0 and times.max() > _TAIL * np.median(times)
    label = f"latency, ms{', log scale' if log else ''} ({_kinds(runs)})"
    if log:
        axes.set(**{"xscale" if upright else "yscale": "log"})
        axis = axes.xaxis if upright else axes.yaxis
        axis.set_major_formatter(lambda value, _: number(value))
        axis.set_minor_formatter(NullFormatter())
    axes.set(**{"xlabel" if upright else "ylabel": label})


def _kinds(runs: Mapping[str, Run]) -> str:
    found = kinds(runs)
    return found[0] if len(found) == 1 else "several kinds, named by run"


def _share(drawn: list[Series], most: int) -> int:
    """How many points each series may have."""
    return most if sum(len(one.calls) for one in drawn) <= most else max(2, most // len(drawn))


def _thinned(drawn: list[Series], share: int) -> list[str]:
    calls, shown = (sum(min(len(one.calls), limit) for one in drawn) for limit in (sys.maxsize, share))
    if shown == calls:
        return []
    return [f"thinned: {shown} of {calls} calls are drawn, evenly by rank, both ends kept"]
