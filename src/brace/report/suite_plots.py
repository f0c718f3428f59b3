"""Plots of a whole suite in three kinds: a figure over an axis, by an axis, and call by call."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from brace.errors import BraceError
from brace.ledger.intervals import SHARE, Estimate
from brace.report import style
from brace.report.rows import clean, parts, printed

_HEADING = 1.3
"""The room of a heading between bars, in bars."""
_UNJUDGED = "no run has this figure"
_PAPER = "the paper"
_FITTED = "N_0 + t·K·n, fitted"


@dataclass(frozen=True)
class Mark:
    """A figure of one run, and where it stands."""

    group: str
    """The heading above its bar, or its place on the axis; empty for a run without a place there."""
    name: str
    colour: int
    """The same for all that bear the name."""
    run: int
    """The position of its run in the suite, by which a filter finds it."""
    figure: Estimate
    reported: float | None = None
    """What the paper has there, in the unit that is printed."""


@dataclass(frozen=True)
class Trace:
    """A quantity call by call over one episode of a run."""

    name: str
    colour: int
    run: int
    steps: Sequence[float]
    values: Sequence[float]
    fitted: tuple[float, float] | None = None
    """Start and growth a step of a straight line through it."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes: how high it is in inches, and what draws on it."""

    height: float
    draw: Callable[[Axes], list[str]]
    """Returns what the caption must say."""


@dataclass(frozen=True)
class Plot:
    """A plot of a suite, before it is known where it is shown."""

    name: str
    """What its files are called."""
    title: str
    panels: tuple[Panel, ...]
    """Beneath each other."""
    lines: tuple[str, ...] = ()
    """How to read it."""
    places: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """By colour: the place on the axes of all that has it, by which a filter finds a line."""

    def drawn(self) -> tuple[Figure, list[str]]:
        """The figure, and what its caption has to say."""
        picture, axes = style.stacked([panel.height for panel in self.panels])
        said = [line for panel, one in zip(self.panels, axes, strict=True) for line in panel.draw(one)]
        return picture, list(dict.fromkeys([*self.lines, *said]))


def write_plots(plots: Sequence[Plot], folder: Path) -> list[Path]:
    """Each plot as PNG and SVG, in ink that is read on white."""
    written = []
    for plot in plots:
        picture, _ = plot.drawn()
        picture.suptitle("\n".join(textwrap.wrap(plot.title, 72)), fontsize=10.5, color=style.INK)
        style.print_on_white(picture)
        for kind in ("png", "svg"):
            target = folder / f"{plot.name}.{kind}"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with mpl.rc_context({**style.STYLE, "svg.hashsalt": plot.name}):
                    picture.savefig(target, dpi=160, metadata={"Date": None} if kind == "svg" else None)
            except OSError as error:
                raise BraceError(f"cannot write the plot {target}: {error.strerror}") from error
            written.append(target)
    return written


def line_mark(colour: int) -> str:
    """What marks a line that joins the runs of one colour (see `style.series_mark`)."""
    return f"line-{colour}"


def bars_height(marks: Sequence[Mark]) -> float:
    """Inches that `bars` needs."""
    return 0.75 + 0.21 * (len(marks) + _HEADING * len({mark.group for mark in marks}))


@mpl.rc_context(style.STYLE)
def bars(axes: Axes, marks: Sequence[Mark], label: str, absent: str = _UNJUDGED) -> list[str]:
    """A bar a run under the heading of its group, with interval and figure; a ring is the paper's."""
    figures = [printed(mark.figure) for mark in marks]
    ends = [figure.hi if figure.hi is not None else figure.value or 0.0 for figure in figures]
    reach = max([*ends, *(mark.reported or 0.0 for mark in marks)], default=0.0) or 1.0
    y, heading = -1.0, None
    for mark, figure, end in zip(marks, figures, ends, strict=True):
        if mark.group != heading:
            heading = mark.group
            y += _HEADING
            axes.text(0, y - 0.1, clean(heading), va="center", fontweight="bold")
        y += 1
        gid = style.series_mark(mark.run)
        words, interval = parts(mark.figure, 1)
        if figure.value is not None:
            axes.barh(y, figure.value, height=0.7, color=style.colour(mark.colour), gid=gid)
            if figure.lo is not None and figure.hi is not None:
                axes.plot([figure.lo, figure.hi], [y, y], color=style.INK, linewidth=1.4, gid=gid)
                words = f"{words} {interval}"
        if mark.reported is not None:
            axes.plot([mark.reported], [y], "o", ms=5, mfc="none", mec=style.INK, mew=1.2, gid=gid)
        words = f"{clean(mark.name)}: {words}"
        axes.text(
            max(end, mark.reported or 0.0) + 0.015 * reach, y, words, va="center", fontsize=8.5, gid=gid
        )
    axes.set_yticks([])
    axes.set_ylim(y + 0.7, -0.4)
    # The words behind the bars need the room; ticks there would stand for nothing.
    axes.set_xlim(0, 1.75 * reach)
    most = 100.0 if figures and figures[0].unit == "%" else reach
    axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= min(most, 1.1 * reach)])
    axes.set_xlabel(label)
    axes.spines["left"].set_visible(False)
    style.grid(axes, "x")
    without = [f"{mark.group}, {mark.name}" for mark in marks if mark.figure.value is None]
    return [f"{absent}: {'; '.join(without)}"] if without else []


def lines_height(marks: Sequence[Mark], *, keyed: bool = True) -> float:
    """Inches that `lines` needs."""
    told = any(mark.reported is not None for mark in marks)
    names = [*dict.fromkeys(mark.name for mark in marks), *([_PAPER] if told else [])]
    return 2.2 + (style.KEY_ROW * style.key_rows(names) if keyed else 0.0)


@mpl.rc_context(style.STYLE)
def lines(
    axes: Axes, marks: Sequence[Mark], places: Sequence[str], labels: tuple[str, str], *, keyed: bool = True
) -> list[str]:
    """A line a name over the places, evenly spaced, with intervals; rings and dots are the paper's.

    Runs without a place on the axis are level lines: what all others are to be held against.
    """
    named: dict[str, list[tuple[Mark, float]]] = {}
    for mark in marks:
        if (value := printed(mark.figure).value) is not None:
            named.setdefault(mark.name, []).append((mark, value))
    if not named:
        style.nothing(axes, _UNJUDGED)
        return [_UNJUDGED]
    handles: list[Line2D] = []
    moving = [name for name, found in named.items() if found[0][0].group]
    for name, found in named.items():
        first = found[0][0]
        shade, gid = style.colour(first.colour), line_mark(first.colour)
        if name not in moving:
            handles.append(axes.axhline(found[0][1], color=shade, ls=(0, (4, 2)), lw=1.3, gid=gid))
            continue
        # Beside each other, so that the intervals of equal figures can be told apart.
        shift = 0.3 * ((moving.index(name) + 0.5) / len(moving) - 0.5)
        points = sorted((places.index(mark.group) + shift, value) for mark, value in found)
        dashes = style.dashes(first.colour)
        handles += axes.plot(*zip(*points, strict=True), color=shade, ls=dashes, lw=1.6, gid=gid)
        rings = sorted(
            (places.index(m.group) + shift, m.reported) for m, _ in found if m.reported is not None
        )
        if rings:
            x, y = zip(*rings, strict=True)
            axes.plot(x, y, ":", marker="o", ms=7, mfc="none", mew=1.2, lw=1.0, color=shade, gid=gid)
        for mark, value in found:
            at, figure = places.index(mark.group) + shift, printed(mark.figure)
            run = style.series_mark(mark.run)
            if figure.lo is not None and figure.hi is not None:
                axes.plot([at, at], [figure.lo, figure.hi], color=shade, lw=1.0, gid=run)
            axes.plot([at], [value], "o", ms=5, color=shade, gid=run)
    if keyed:
        names = [clean(name) for name in named]
        if any(mark.reported is not None for mark in marks):
            names.append(_PAPER)
            handles.append(
                Line2D([], [], marker="o", ls=":", lw=1.0, ms=7, mfc="none", mew=1.2, color=style.INK)
            )
        style.key(axes, handles, names)
    axes.set_xticks(range(len(places)), [clean(place) for place in places])
    axes.set_xlim(-0.4, len(places) - 0.6)
    percent = all(mark.figure.unit == SHARE for mark in marks)
    # A little beyond both ends, so that marks at 0 and 100 % are drawn whole.
    axes.set_ylim(*((-2, 102) if percent else (-0.02 * axes.get_ylim()[1], None)))
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    style.grid(axes, "y")
    return []


def traces_height(traces: Sequence[Trace], *, keyed: bool = True) -> float:
    """Inches that `calls` needs."""
    names = [*(trace.name for trace in traces), _FITTED]
    return 2.2 + (style.KEY_ROW * style.key_rows(names) if keyed else 0.0)


@mpl.rc_context(style.STYLE)
def calls(
    axes: Axes, traces: Sequence[Trace], label: str, *, keyed: bool = True, last: bool = True
) -> list[str]:
    """A mark a call at the step that decided it, and the fitted growth as a straight line."""
    handles: list[Line2D] = []
    for trace in traces:
        shade, gid = style.colour(trace.colour), style.series_mark(trace.run)
        handles += axes.plot(trace.steps, trace.values, "-o", ms=4, lw=1.0, alpha=0.85, color=shade, gid=gid)
        if trace.fitted is not None:
            start, slope = trace.fitted
            ends = [0, max(trace.steps, default=0)]
            axes.plot(ends, [start + slope * t for t in ends], "--", color=shade, linewidth=1.6, gid=gid)
    if not traces:
        style.nothing(axes, "no call")
        return ["no call"]
    if keyed:
        names = [clean(trace.name) for trace in traces]
        if any(trace.fitted is not None for trace in traces):
            handles.append(Line2D([], [], ls="--", lw=1.6, color=style.INK))
            names.append(_FITTED)
        style.key(axes, handles, names, [trace.run for trace in traces])
    axes.set_ylim(bottom=-0.02 * axes.get_ylim()[1])
    axes.set_xlim(left=0)
    if last:
        axes.set_xlabel("step t of the episode")
    axes.set_ylabel(label)
    style.grid(axes, "y")
    return []
