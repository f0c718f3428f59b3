"""The page of a whole suite: its tables, its figures, one timeline a world and method, and what was run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from brace.errors import BraceError
from brace.ledger.metrics import EXECUTED, latency_kinds, miss_rate, success_rate
from brace.ledger.reader import Run
from brace.report import frames, markup, plots, style, suite_plots, timeline
from brace.report.provenance import different_table, same_table
from brace.report.rows import Table
from brace.report.suite_plots import Mark, Panel, Plot

Places = Mapping[str, Mapping[str, str]]
"""By label: the place of a run on each axis."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'"
FRAMES_WEIGHT = 1_000_000
"""Bytes that all frames together may take of a page that is to be sent by mail."""
MOST_RUNS = 20
"""Of one world: more lines or bars in one figure tell nothing, so there each run has its own report only."""
_HEAVY = "The frames of this episode are too large to be shown here."
_BUDGETS = ("budget", "b")
_FEWEST_POINTS = 400  # of a plot, however many worlds share a page


@dataclass(frozen=True)
class SuiteView:
    """What a suite has to show."""

    title: str
    about: tuple[str, ...]
    """Paragraphs: what is compared, how, what the SLO is."""
    runs: Mapping[str, Run]
    """By label, in order."""
    labels: Places
    """By the label of a run: its place on each axis, e.g. {"world": "babyai-v1", "method": "No BRACE"}.

    Of the axes, `world` divides the figures, `method` (or else the first other one) the timelines, and
    `budget` (or `B`) is drawn against.
    """
    tables: tuple[Table, ...]
    command: str
    """What makes the page."""
    partial: str = ""
    """Empty, or what is missing."""
    folders: Mapping[str, Path] = field(default_factory=dict)
    """By label: the run directory, where frames may lie."""
    plots: tuple[Plot, ...] = ()
    """Its own plots; the positions in them are those of `runs`."""


def write_suite_page(view: SuiteView, target: Path) -> Path:
    """Write the page of a suite to `target`."""
    if not view.runs:
        raise BraceError("a suite without a run has no page: run it first")
    if unknown := sorted(view.runs.keys() ^ view.labels.keys()):
        raise BraceError(f"runs and labels of the suite do not match: {', '.join(unknown)}")
    return markup.write(target, _Page(view).text())


class _Page:
    """The parts of the page, all of which a filter finds."""

    def __init__(self, view: SuiteView) -> None:
        self._view, self._runs, self._places = view, view.runs, view.labels
        self._filters = Filters(view.labels)
        self._axes = list(dict.fromkeys(axis for place in self._places.values() for axis in place))
        self._budget = next((axis for axis in self._axes if axis.lower() in _BUDGETS), None)
        self._marked = {
            style.series_mark(position): self._filters.of(label) for position, label in enumerate(self._runs)
        }
        # A short name within its world for each run: its places on the other axes, if that suffices.
        axes = [axis for axis in self._axes if axis != "world"]
        names = {
            label: " · ".join(place[axis] for axis in axes if axis in place) or label
            for label, place in self._places.items()
        }
        seen = {(self._places[label].get("world"), names[label]) for label in self._runs}
        self._names = names if len(seen) == len(self._runs) else {label: label for label in self._runs}
        # The runs of each world by these names; a name that has no run there stands for nothing.
        every = dict.fromkeys(self._names[label] for label in self._runs)
        self._worlds: dict[str, dict[str, str | None]] = {}
        for label in self._runs:
            world = self._worlds.setdefault(self._places[label].get("world", ""), dict.fromkeys(every))
            world[self._names[label]] = label

    def text(self) -> str:
        """The whole page."""
        view, filters = self._view, self._filters
        called = any(run.calls.filter(EXECUTED).height for run in self._runs.values())
        few = len(next(iter(self._worlds.values()))) <= MOST_RUNS
        tables = "".join(
            f"<h3>{markup.said(table.title)}</h3>{markup.table(table, classify=filters.of)}"
            for table in view.tables
        )
        sections = {"tables": ("Results", tables)} if tables else {}
        if view.plots:
            shown = "".join(map(self._plot, view.plots))
            sections["plots"] = ("In pictures", f'<div class="figures">{shown}</div>')
        if called and not few:
            said = f"With more than {MOST_RUNS} runs in a world, single runs are in reports of their own."
            sections["latency"] = ("Latency and the SLO", markup.remarks([said]))
        if called and few:
            sections |= {
                "latency": ("Latency and the SLO", self._each_world("cdf")),
                "misses": ("Misses across worlds", self._misses()),
                "tokens": ("Tokens against latency", self._each_world("tokens")),
            }
        if self._budget is not None:
            sections["budgets"] = ("Success against budget", self._success(self._budget))
        if called and few:
            sections["phases"] = ("Where the time goes", self._each_world("phases"))
        notes = markup.notes(self._runs, filters.of)
        sections |= {
            "timelines": ("Timelines", "".join(self._timelines())),
            "notes": ("Reader's notes", markup.folded("What was left out", notes)),
            "runs": ("What was run", "".join(self._provenance())),
        }
        return markup.document(
            view.title, self._lead(), sections, POLICY, bar=filters.form(), more_css=filters.css()
        )

    def _lead(self) -> str:
        """What the page is about, in words, and how much there is of it."""
        view = self._view
        episodes = sum(run.episodes.height for run in self._runs.values())
        calls = sum(run.calls.height for run in self._runs.values())
        counted = f"{len(self._runs)} runs, {episodes} finished episodes, {calls} planner calls."
        warning = f'<p class="warning">Partial: {markup.said(view.partial)}</p>' if view.partial else ""
        about = "".join(f"<p>{markup.said(paragraph)}</p>" for paragraph in view.about)
        made = f'<p class="small">{counted} Made by <code>{markup.said(view.command)}</code></p>'
        return f'<div class="about">{warning}{about}{made}</div>'

    def _plot(self, plot: Plot, classes: str = "") -> str:
        picture, said = plot.drawn()
        lines = {suite_plots.line_mark(n): self._filters.at(place) for n, place in plot.places.items()}
        drawing = style.svg(picture, f"plot-{plot.name}", plot.title, self._marked | lines)
        return markup.figure(drawing, plot.title, said, self._view.command, classes=classes)

    def _each_world(self, kind: str) -> str:
        """One of the plots of `markup.PLOTS` for each world, its runs in the same colours everywhere."""
        drawn = []
        most = max(_FEWEST_POINTS, plots.MOST_POINTS // len(self._worlds))
        for number, (world, labels) in enumerate(self._worlds.items()):
            some = next(self._runs[label] for label in labels.values() if label is not None)
            # An empty run keeps the place, and so the colour, of one that this world lacks.
            nothing = replace(some, calls=some.calls.clear())
            runs = {name: nothing if label is None else self._runs[label] for name, label in labels.items()}
            marked = {
                style.series_mark(position): self._filters.of(label)
                for position, label in enumerate(labels.values())
                if label is not None
            }
            drawn.append(
                markup.plot_of(
                    kind, runs, self._view.command, most=most, number=f"-{number}", of=world, marked=marked,
                    classes=self._filters.at({"world": world}),
                )
            )  # fmt: skip
        return f'<div class="figures">{"".join(drawn)}</div>'

    def _misses(self) -> str:
        """The miss rate of every run, world by world."""
        order = list(self._runs)
        marks = [
            Mark(world or "all runs", name, colour, order.index(label), miss_rate(self._runs[label]))
            for world, labels in self._worlds.items()
            for colour, (name, label) in enumerate(labels.items())
            if label is not None
        ]
        kinds = sorted({kind for run in self._runs.values() for kind in latency_kinds(run)})
        lines = [f"Misses over calls with an SLO, with Wilson's 95 % interval; latency: {', '.join(kinds)}."]
        if len(kinds) > 1:
            lines.append("The latencies are of several kinds: compare misses only where the kinds agree.")
        draw = partial(
            suite_plots.bars, marks=marks, label="calls with an SLO that missed it, %",
            absent="no call with an SLO",
        )  # fmt: skip
        panel = Panel(suite_plots.bars_height(marks), draw)
        return self._plot(Plot("misses", "Calls that missed their SLO", (panel,), tuple(lines)))

    def _success(self, budget: str) -> str:
        """Success over the budgets, a figure a world, a line for each place on the other axes."""
        names: list[str] = []
        found: dict[str, list[Mark]] = {}
        places: dict[int, Mapping[str, str]] = {}
        for position, (label, run) in enumerate(self._runs.items()):
            place = dict(self._places[label])
            world, spent = place.pop("world", ""), place.pop(budget, None)
            if spent is not None:
                name = " · ".join(place.values()) or "all runs"
                if name not in names:
                    names.append(name)
                places[names.index(name)] = place
                mark = Mark(spent, name, names.index(name), position, success_rate(run))
                found.setdefault(world, []).append(mark)
        there = list(dict.fromkeys(mark.group for marks in found.values() for mark in marks))
        budgets = sorted(there, key=lambda spent: (_number(spent), there.index(spent)))
        drawn = []
        for number, (world, marks) in enumerate(found.items()):
            labels = ("budget, tokens (evenly spaced)", "episodes with success, %")
            panel = Panel(
                suite_plots.lines_height(marks),
                partial(suite_plots.lines, marks=marks, places=budgets, labels=labels),
            )
            title = "Success against budget" + (f": {world}" if world else "")
            said = ("Successes over judged episodes, with Wilson's 95 % interval.",)
            plot = Plot(f"success-{number}", title, (panel,), said, places)
            drawn.append(self._plot(plot, self._filters.at({"world": world})))
        return f'<div class="figures">{"".join(drawn)}</div>'

    def _timelines(self) -> Iterator[str]:
        """One a world and method, folded by world; the first world is open."""
        axis = next((axis for axis in ("method", *self._axes) if axis in self._axes and axis != "world"), "")
        chosen: dict[str, dict[str, str]] = {}
        for label in self._runs:
            place = self._places[label]
            chosen.setdefault(place.get("world", ""), {}).setdefault(place.get(axis, label), label)
        weight = FRAMES_WEIGHT // sum(map(len, chosen.values()))
        for number, (world, labels) in enumerate(chosen.items()):
            drawn = "".join(
                self._timeline(label, f"timeline-{number}-{place}", weight)
                for place, label in enumerate(labels.values())
            )
            classes = self._filters.at({"world": world})
            yield markup.folded(world or "all runs", drawn, classes=classes, unfolded=number == 0)
        yield markup.remarks(markup.TIMELINES)

    def _timeline(self, label: str, name: str, weight: int) -> str:
        run, folder, classes = self._runs[label], self._view.folders.get(label), self._filters.of(label)
        episodes = timeline.eventful(run, max(1, run.episodes.height))
        if not episodes:
            said = f"<p>{markup.said(label)}: no step, call or episode was recorded.</p>"
            return f"<div{markup.attribute(classes)}>{said}</div>"
        filmed = frames.episodes_with_frames(folder) if folder else set()
        # Of the most eventful episodes, one that can be seen is worth more than one that cannot.
        episode = next((episode for episode in episodes if episode in filmed), episodes[0])
        strip = ""
        if folder and episode in filmed:
            items = "".join(
                f'<li><img src="{frames.data_uri(data)}" alt="The world at step {step}">'
                f"<span>step {step}</span></li>"
                for step, data in frames.light_frames(folder, episode, weight)
            )
            strip = f'<ol class="frames">{items}</ol>' if items else markup.remarks([_HEAVY])
        return markup.timeline_of(run, label, name, episode, self._view.command, strip=strip, classes=classes)

    def _provenance(self) -> Iterator[str]:
        yield markup.table(same_table(self._runs))
        differing = markup.table(different_table(self._runs), classify=self._filters.of)
        yield markup.folded("What differs between the runs", differing)
        yield from markup.configs(self._runs, self._filters.of)


class Filters:
    """The axes on which runs differ. What carries the classes of a value vanishes when its box is cleared."""

    def __init__(self, places: Places) -> None:
        self._places = places
        values: dict[str, dict[str, None]] = {}
        for of_run in places.values():
            for axis, value in of_run.items():
                values.setdefault(axis, {})[value] = None
        self._axes = {axis: list(found) for axis, found in values.items() if len(found) > 1}

    def at(self, place: Mapping[str, str]) -> str:
        """The classes of what belongs to this place."""
        return " ".join(
            f"of-{number}-{values.index(place[axis])}"
            for number, (axis, values) in enumerate(self._axes.items())
            if place.get(axis) in values
        )

    def of(self, *words: str) -> str:
        """The classes of what is called by these words: labels of runs, or values of axes.

        Of several values of one axis the first counts: a row of a method may name another it is held against.
        """
        place: dict[str, str] = {}
        for word in words:
            known = self._places.get(word) or {axis: word for axis, of in self._axes.items() if word in of}
            place = {**known, **place}
        return self.at(place)

    def form(self) -> str:
        """The check boxes, all checked, and a button that checks them all again."""
        if not self._axes:
            return ""
        groups = []
        for number, (axis, values) in enumerate(self._axes.items()):
            boxes = "".join(
                f'<label><input type="checkbox" id="pick-{number}-{place}" checked> '
                f"{markup.said(value)}</label>"
                for place, value in enumerate(values)
            )
            groups.append(f"<fieldset><legend>{markup.said(axis)}</legend>{boxes}</fieldset>")
        # Within no dialog a form of method dialog does nothing: Enter must not send it anywhere.
        return markup.folded(
            f"Filter by {', '.join(self._axes)}",
            f'<form method="dialog" autocomplete="off">{"".join(groups)}'
            '<button type="reset">Show all</button></form>',
            classes="filters",
        )

    def css(self) -> str:
        """One rule a box."""
        return "".join(
            f"body:has(#pick-{number}-{place}:not(:checked)) .of-{number}-{place} {{ display: none; }}\n"
            for number, values in enumerate(self._axes.values())
            for place in range(len(values))
        )


def _number(budget: str) -> float:
    try:
        return float(budget.replace(",", "").split()[0])
    except (ValueError, IndexError):
        return float("inf")
