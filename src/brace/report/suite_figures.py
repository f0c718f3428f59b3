"""The figures of a suite: one a world where runs are drawn beside each other, one for all where rates are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from matplotlib.axes import Axes

from brace.ledger.metrics import latency_kinds, miss_rate, success_rate
from brace.ledger.reader import Run
from brace.report import markup, pieces, plots, style, suite_plots
from brace.report.filters import Filters, Places
from brace.report.suite_plots import Mark

_BUDGETS = ("budget", "b")
_FEWEST_POINTS = 400  # of a plot, however many worlds share a page


@dataclass(frozen=True)
class _World:
    """The runs of one world by the name that tells them apart there; a place without a run has None."""

    name: str
    labels: Mapping[str, str | None]


class SuiteFigures:
    """Figures of the runs by their places; all name the command that makes them."""

    def __init__(self, runs: Mapping[str, Run], places: Places, command: str, filters: Filters) -> None:
        self._runs, self._places, self._command, self._filters = runs, places, command, filters
        axes = list(dict.fromkeys(axis for place in places.values() for axis in place))
        self._budget = next((axis for axis in axes if axis.lower() in _BUDGETS), None)
        self._names = self._told_apart([axis for axis in axes if axis != "world"])
        self._worlds = self._by_world()
        self._marked = {style.series_mark(position): filters.of(label) for position, label in enumerate(runs)}

    @property
    def budgets(self) -> list[str]:
        """The budgets of the suite, numbers first and in order; empty without such an axis."""
        if self._budget is None:
            return []
        found = dict.fromkeys(place[self._budget] for place in self._places.values() if self._budget in place)
        return sorted(found, key=lambda budget: (_number(budget), list(found).index(budget)))

    def each_world(self, kind: str) -> str:
        """One of the plots of `pieces.PLOTS` for each world, its runs in the same colours everywhere."""
        drawn = []
        most = max(_FEWEST_POINTS, plots.MOST_POINTS // len(self._worlds))
        for number, world in enumerate(self._worlds):
            some = next(self._runs[label] for label in world.labels.values() if label is not None)
            nothing = replace(some, calls=some.calls.clear())
            runs = {
                name: nothing if label is None else self._runs[label] for name, label in world.labels.items()
            }
            marked = {
                style.series_mark(position): self._filters.of(label)
                for position, label in enumerate(world.labels.values())
                if label is not None
            }
            drawn.append(
                pieces.plot_of(
                    kind, runs, self._command, most=most, number=f"-{number}", of=world.name, marked=marked,
                    classes=self._filters.at({"world": world.name}),
                )
            )  # fmt: skip
        return f'<div class="figures">{"".join(drawn)}</div>'

    def misses(self) -> str:
        """The miss rate of every run, world by world."""
        marks = [
            self._mark(world.name, name, label, colour)
            for world in self._worlds
            for colour, (name, label) in enumerate(world.labels.items())
            if label is not None
        ]
        kinds = sorted({kind for run in self._runs.values() for kind in latency_kinds(run)})
        lines = [f"Misses over calls with an SLO, with Wilson's 95 % interval; latency: {', '.join(kinds)}."]
        if len(kinds) > 1:
            lines.append("The latencies are of several kinds: compare misses only where the kinds agree.")
        return self._rates(
            "misses", "Calls that missed their SLO", suite_plots.bars_height(marks), lines,
            partial(suite_plots.miss_bars, marks=marks),
        )  # fmt: skip

    def success(self) -> str:
        """Success over the budgets, a figure a world, a line for each place on the other axes."""
        names: dict[str, int] = {}
        by_world: dict[str, list[Mark]] = {}
        for position, (label, run) in enumerate(self._runs.items()):
            place = dict(self._places[label])
            world, budget = place.pop("world", ""), place.pop(self._budget or "", None)
            if budget is not None:
                name = " · ".join(place.values()) or "all runs"
                colour = names.setdefault(name, len(names))
                by_world.setdefault(world, []).append(Mark(budget, name, colour, position, success_rate(run)))
                self._marked[suite_plots.line_mark(colour)] = self._filters.at(place)
        drawn = []
        for number, (world, marks) in enumerate(by_world.items()):
            of = f": {world}" if world else ""
            drawn.append(
                self._rates(
                    f"success-{number}", f"Success against budget{of}", 3.1,
                    ["Successes over judged episodes, with Wilson's 95 % interval."],
                    partial(suite_plots.success_by_budget, marks=marks, budgets=self.budgets),
                    self._filters.at({"world": world}),
                )
            )  # fmt: skip
        return f'<div class="figures">{"".join(drawn)}</div>'

    def _rates(
        self, name: str, caption: str, height: float, lines: Sequence[str],
        draw: Callable[[Axes], list[str]], classes: str = "",
    ) -> str:  # fmt: skip
        picture, axes = style.blank(height)
        said = [*lines, *draw(axes)]
        drawing = style.svg(picture, name, caption, self._marked)
        return markup.figure(drawing, caption, said, self._command, classes=classes)

    def _mark(self, world: str, name: str, label: str, colour: int) -> Mark:
        position = list(self._runs).index(label)
        return Mark(world or "all runs", name, colour, position, miss_rate(self._runs[label]))

    def _told_apart(self, axes: list[str]) -> dict[str, str]:
        """A short name for each run within its world: its places on the other axes, if that suffices."""
        names = {
            label: " · ".join(place[axis] for axis in axes if axis in place) or label
            for label, place in self._places.items()
        }
        seen = [(self._places[label].get("world"), names[label]) for label in self._runs]
        return names if len(set(seen)) == len(seen) else {label: label for label in self._runs}

    def _by_world(self) -> list[_World]:
        every = dict.fromkeys(self._names[label] for label in self._runs)
        worlds: dict[str, dict[str, str | None]] = {}
        for label in self._runs:
            world = self._places[label].get("world", "")
            worlds.setdefault(world, dict.fromkeys(every))[self._names[label]] = label
        return [_World(name, labels) for name, labels in worlds.items()]


def _number(budget: str) -> float:
    try:
        return float(budget.replace(",", "").split()[0])
    except (ValueError, IndexError):
        return float("inf")
