"""Plots of rates across a suite: misses by world, success against the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes

from brace.ledger.intervals import Estimate
from brace.report import style
from brace.report.rows import clean, parts

_HEADING = 1.3
"""The room of a world's name, in bars."""


_UNJUDGED = "no episode was judged"


def line_mark(colour: int) -> str:
    """What marks a line that joins the runs of one colour (see `style.series_mark`)."""
    return f"line-{colour}"


@dataclass(frozen=True)
class Mark:
    """A rate of one run."""

    group: str
    """Under which heading, or at which place of the axis, it stands."""
    name: str
    colour: int
    """The same for all that bear the name."""
    run: int
    """The position of its run in the suite, by which a filter finds it."""
    rate: Estimate


def bars_height(marks: Sequence[Mark]) -> float:
    """Inches that `miss_bars` needs."""
    return 0.75 + 0.21 * (len(marks) + _HEADING * len({mark.group for mark in marks}))


@mpl.rc_context(style.STYLE)
def miss_bars(axes: Axes, marks: Sequence[Mark]) -> list[str]:
    """A bar a run under the name of its world, with Wilson's interval and the figure."""
    reach = max((100 * (mark.rate.hi or 0.0) for mark in marks), default=0.0) or 1.0
    y, heading = -1.0, None
    for mark in marks:
        if mark.group != heading:
            heading = mark.group
            y += _HEADING
            axes.text(0, y - 0.1, clean(heading), va="center", fontweight="bold")
        y += 1
        gid = style.series_mark(mark.run)
        value, interval = parts(mark.rate, 1)
        if mark.rate.value is not None and mark.rate.lo is not None and mark.rate.hi is not None:
            axes.barh(y, 100 * mark.rate.value, height=0.7, color=style.colour(mark.colour), gid=gid)
            line = [100 * mark.rate.lo, 100 * mark.rate.hi]
            axes.plot(line, [y, y], color=style.INK, linewidth=1.4, gid=gid)
            value = f"{value} {interval}"
        end = 100 * (mark.rate.hi or 0.0) + 0.015 * reach
        words = f"{clean(mark.name)}: {value}"
        axes.text(end, y, words, va="center", fontsize=8.5, gid=gid)
    axes.set_yticks([])
    axes.set_ylim(y + 0.7, -0.4)
    axes.set_xlim(0, 1.75 * reach)
    axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= min(100.0, 1.1 * reach)])
    axes.set_xlabel("calls with an SLO that missed it, %")
    axes.spines["left"].set_visible(False)
    style.grid(axes, "x")
    unbound = [f"{mark.group}, {mark.name}" for mark in marks if mark.rate.value is None]
    return [f"no call with an SLO: {'; '.join(unbound)}"] if unbound else []


@mpl.rc_context(style.STYLE)
def success_by_budget(axes: Axes, marks: Sequence[Mark], budgets: Sequence[str]) -> list[str]:
    """A line a name over the budgets, evenly spaced, each point with Wilson's interval."""
    named: dict[str, list[Mark]] = {}
    for mark in marks:
        if mark.rate.value is not None:
            named.setdefault(mark.name, []).append(mark)
    handles = []
    for place, found in enumerate(named.values()):
        shift = 0.3 * ((place + 0.5) / len(named) - 0.5)  # so that intervals stand beside each other
        points = sorted((budgets.index(mark.group) + shift, 100 * (mark.rate.value or 0.0)) for mark in found)
        shade = style.colour(found[0].colour)
        x, y = zip(*points, strict=True)
        handles += axes.plot(x, y, color=shade, linewidth=1.6, gid=line_mark(found[0].colour))
        for mark in found:
            at, gid = budgets.index(mark.group) + shift, style.series_mark(mark.run)
            ends = [100 * (mark.rate.lo or 0.0), 100 * (mark.rate.hi or 0.0)]
            axes.plot([at, at], ends, color=shade, linewidth=1.0, gid=gid)
            axes.plot([at], [100 * (mark.rate.value or 0.0)], "o", ms=5, color=shade, gid=gid)
    if not named:
        style.nothing(axes, _UNJUDGED)
        return [_UNJUDGED]
    style.key(axes, handles, [clean(name) for name in named])
    axes.set_xticks(range(len(budgets)), [clean(budget) for budget in budgets])
    axes.set_xlim(-0.4, len(budgets) - 0.6)
    axes.set_ylim(-2, 102)
    axes.set_xlabel("budget, tokens (evenly spaced)")
    axes.set_ylabel("episodes with success, %")
    style.grid(axes, "y")
    return []
