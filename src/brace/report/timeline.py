"""The timeline of one episode: what asked for a plan, what was held back, what the calls came to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from brace.ledger.metrics import GATE, MISSED, SUPPRESSED, TRIGGERED
from brace.ledger.reader import Run
from brace.report import style
from brace.report.rows import clean

MOST_STEPS = 400
"""Of a longer episode the most eventful stretch of so many steps is drawn."""
_WIDTH, _LANE = 11.0, 0.24
_TRIGGERS = ("periodic", "failure", "divergence", "hazard", "deadlock", "goal", "exhausted")
_LONGEST = 30
_GAP = 0.2  # steps: calls that follow each other at once are still two
_SHORTEST = 0.8  # steps: a call that is over within its step is still seen
_OUTCOMES: dict[str, tuple[str, bool]] = {
    "accepted": (style.BLUE, True),
    "accepted, late": (style.ORANGE, True),
    "nothing in time": (style.RED, False),
    "no usable plan": (style.PURPLE, True),
    "cancelled": (style.INK, False),
}
"""Colour, and whether filled: who cannot tell the colours apart sees the frames."""


@dataclass(frozen=True)
class Lane:
    """One row of marks."""

    group: str
    name: str
    times: list[int]
    marker: str = "|"
    colour: str = style.INK


def eventful(run: Run, n: int) -> list[int]:
    """The n episodes with the most misses, fallbacks, overrides and cancellations, then the most triggers."""
    scores = pl.concat([
        run.calls.select(
            "episode", event=MISSED.cast(pl.Int64) + pl.col("fallback").is_not_null(), trigger=0
        ),
        run.steps.select(
            "episode",
            event=pl.col("override").is_not_null().cast(pl.Int64) + pl.col("cancel").is_not_null(),
            # The type that polars gives to the plain 0 of the other two tables.
            trigger=TRIGGERED.cast(pl.Int32),
        ),
        # So that an episode in which nothing happened is in the list, too.
        run.episodes.select("episode", event=pl.lit(0, pl.Int64), trigger=0),
    ])  # fmt: skip
    ranked = scores.group_by("episode").agg(pl.col("event", "trigger").sum())
    order = ranked.sort("event", "trigger", "episode", descending=[True, True, False])
    return order["episode"].head(n).to_list()


def lanes(run: Run, episode: int) -> list[Lane]:
    """The marks of an episode from top to bottom; a lane exists if something is on it."""
    steps = run.steps.filter(pl.col("episode") == episode)
    calls = run.calls.filter(pl.col("episode") == episode)
    return [replace(lane, name=clean(lane.name)[:_LONGEST]) for lane in _lanes(steps, calls) if lane.times]


def _lanes(steps: pl.DataFrame, calls: pl.DataFrame) -> Iterator[Lane]:
    kinds = set(steps["triggers"].explode().drop_nulls())
    for kind in (*_TRIGGERS, *sorted(kinds - set(_TRIGGERS))):
        here = steps.filter(pl.col("triggers").list.contains(kind))
        yield Lane("triggers", kind, here["t"].to_list(), colour=style.GREEN)
    yield Lane("triggers", "critical hazard", steps.filter("critical")["t"].to_list(), "D", style.RED)
    held = steps.filter(SUPPRESSED).with_columns(reason=GATE)
    for reason in held["reason"].unique(maintain_order=True):
        yield Lane(
            "suppressed", f"held: {reason}", held.filter(pl.col("reason") == reason)["t"].to_list(), "x"
        )
    for cause, times in _by(steps, "override"):
        yield Lane("events", f"override: {cause}", times, "^", style.PURPLE)
    for cause, times in _by(steps, "cancel"):
        yield Lane("events", f"cancel: {cause}", times, "s", style.INK)
    yield Lane("events", "missed SLO", calls.filter(MISSED)["t_end"].to_list(), "X", style.RED)
    for cause, times in _by(calls, "fallback", "t_end"):
        yield Lane("events", f"fallback: {cause}", times, "v", style.OLIVE)


def _by(table: pl.DataFrame, column: str, at: str = "t") -> Iterator[tuple[str, list[int]]]:
    for cause in table[column].drop_nulls().unique().sort():
        yield cause, table.filter(pl.col(column) == cause)[at].to_list()


def timeline_figure(run: Run, episode: int, most: int = MOST_STEPS) -> tuple[Figure, list[str]]:
    """The timeline as a figure of fitting height, and what its caption has to say."""
    rows = lanes(run, episode)
    figure, axes = style.blank(1.15 + _LANE * (len(rows) + 2.4), _WIDTH)
    return figure, draw_timeline(axes, run, episode, most)


@mpl.rc_context(style.STYLE)
def draw_timeline(axes: Axes, run: Run, episode: int, most: int = MOST_STEPS) -> list[str]:
    """Triggers, suppressed triggers and events as marks on lanes; calls as bars from decision to arrival."""
    rows = lanes(run, episode)
    steps = run.steps.filter(pl.col("episode") == episode)["t"]
    calls = run.calls.filter(pl.col("episode") == episode).with_columns(missed=MISSED)
    times = [t for lane in rows for t in lane.times] + calls["t"].to_list() + calls["t_end"].to_list()
    last = max([0, *steps, *times])
    start, stop = _stretch(times, last, most)
    split = sum(lane.group != "events" for lane in rows)
    places: list[float] = []
    for index, lane in enumerate(rows):
        # The bars of the calls take the room of two lanes between what asked for them and what came of them.
        y = index + (2.0 if index >= split else 0.0)
        places.append(y)
        inside = [t for t in lane.times if start <= t <= stop]
        axes.plot(
            inside, [y] * len(inside), lane.marker, color=lane.colour, ms=8 if lane.marker == "|" else 5.5,
            mew=1.8 if lane.marker in "|x" else 0, linestyle="",
        )  # fmt: skip
    middle = split + 0.5
    seen = _bars(axes, calls.filter((pl.col("t_end") >= start) & (pl.col("t") <= stop)), middle)
    bottom = len(rows) + 2.0
    axes.set_yticks([*places, middle], [*(lane.name for lane in rows), "calls"])
    axes.set_ylim(bottom - 0.3, -0.7)
    room = max(0.6, 0.01 * (stop - start))
    axes.set_xlim(start - room, stop + room)
    axes.set_xlabel("step t")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    style.grid(axes, "x")
    for edge in (split - 0.5, split + 1.5)[: 2 if split < len(rows) else 1]:
        axes.axhline(edge, color=style.INK, linewidth=0.6, alpha=0.5)
    if seen:
        axes.legend(
            handles=[
                Patch(edgecolor=shade, facecolor=shade if filled else "none", linewidth=1.2, label=what)
                for what, (shade, filled) in _OUTCOMES.items() if what in seen
            ],
            loc="lower right",
            bbox_to_anchor=(1, 1), ncols=len(seen), borderpad=0, handlelength=1.2, columnspacing=1.4,
        )  # fmt: skip
    said = [] if len(calls) else ["no planner call in this episode"]
    if (start, stop) != (0, last):
        said.append(f"steps {start} to {stop} of 0 to {last}: the stretch with the most marks")
    return said


def _stretch(times: list[int], last: int, most: int) -> tuple[int, int]:
    """The first and last step to draw."""
    if last <= most:
        return 0, last
    ordered = np.sort(np.asarray(times or [0]))
    # It is enough to try the stretches that begin at a mark, and the last one that is whole.
    begins = np.minimum(ordered, last - most)
    held = np.searchsorted(ordered, begins + most, "right") - np.searchsorted(ordered, begins, "left")
    start = int(begins[held.argmax()])
    return start, start + most


def outcome(status: str, missed: bool) -> str:
    """What a call came to, in the five words of the timeline's key."""
    if status in ("ok", "partial"):
        return "accepted, late" if missed else "accepted"
    if status in ("cut", "shed"):
        return "nothing in time"
    return "cancelled" if status == "cancelled" else "no usable plan"


def _bars(axes: Axes, calls: pl.DataFrame, y: float) -> set[str]:
    seen = set()
    for t, t_end, status, missed in calls.select("t", "t_end", "status", "missed").iter_rows():
        what = outcome(status, missed)
        colour, filled = _OUTCOMES[what]
        axes.add_patch(
            Rectangle(
                (t, y - 0.5), max(t_end - t - _GAP, _SHORTEST), 1.0, edgecolor=colour, linewidth=1.2,
                facecolor=colour if filled else "none",
            )
        )  # fmt: skip
        seen.add(what)
    return seen
