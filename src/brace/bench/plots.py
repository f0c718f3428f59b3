"""The plots that a suite declares: which figures of which runs, in one of three kinds.

plots:
  - name: windows                          # of its files, windows.png and windows.svg
    title: Success over the deadlock window
    kind: line                             # figures over an axis; bar: by an axis; calls: one episode's calls
    figures: [success, figure.deadlocks]   # columns; for `calls`, numbers of a call
    x: window                              # the axis they are drawn over, or that bars are grouped by
    by: [cooldown, commit]                 # a line or colour for each of these
    only: {world: [published]}             # the runs that are drawn; runs without a place on an axis stay
    fit: true                              # `calls`: fit Eq. 3, N_t = N_0 + t·K·n
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from brace.bench.columns import Shown, cell_of, check_columns, column_of
from brace.bench.grid import Variant, check_labels, known_keys, takes
from brace.context import fit_growth
from brace.errors import ConfigError, UnknownNameError
from brace.ledger.intervals import Estimate
from brace.ledger.metrics import EXECUTED
from brace.ledger.reader import Run
from brace.report import suite_plots
from brace.report.suite_plots import Mark, Panel, Plot, Trace

_KEYS = ("name", "title", "kind", "figures", "x", "by", "only", "fit")
_KINDS = ("line", "bar", "calls")
_OF_CALLS = {
    "tokens_in": "tokens of the uncut prompt", "tokens_read": "tokens read", "tokens_after": "tokens held",
    "tokens_cached": "tokens kept from earlier", "tokens_out": "tokens written", "latency_ms": "latency, ms",
    "wait_ms": "wait, ms",
}  # fmt: skip


@dataclass(frozen=True)
class PlotSpec:
    """One plot, as a suite declares it."""

    name: str
    title: str
    kind: str
    figures: tuple[str, ...]
    x: str
    by: tuple[str, ...]
    only: dict[str, tuple[str, ...]]
    fit: bool

    def called(self, variant: Variant) -> str:
        """What the line or bar of this run is called: its places on `by`, else on what is not fixed."""
        axes = [axis for axis in self.by if axis in variant.labels]
        free = [a for a in variant.labels if a != self.x and len(self.only.get(a, ())) != 1]
        named = {axis: variant.labels[axis] for axis in axes or free or variant.labels}
        # A bare number says nothing.
        return " · ".join(
            f"{axis} {label}" if label.replace(".", "", 1).isdigit() else label
            for axis, label in named.items()
        )


def read_plot(data: Mapping[str, Any], variants: Sequence[Variant]) -> PlotSpec:
    """Check what a suite says of a plot."""
    known_keys(data, _KEYS, "suite plot")
    if missing := [key for key in ("name", "kind", "figures") if key not in data]:
        raise ConfigError(f"suite plot {data.get('name', '')!r}: needs {', '.join(missing)}")
    name, kind = str(data["name"]), str(data["kind"])
    if kind not in _KINDS:
        raise UnknownNameError("kind of plot", kind, _KINDS)
    only = {axis: tuple(map(str, labels)) for axis, labels in data.get("only", {}).items()}
    x, by = str(data.get("x", "")), tuple(data.get("by", ()))
    named: dict[str, tuple[str, ...]] = dict.fromkeys((*by, x) if x or kind == "line" else by, ())
    check_labels(named | only, variants, f"of plot {name!r}")
    figures = tuple(data["figures"])
    if kind == "calls":
        for figure in figures:
            if figure not in _OF_CALLS:
                raise UnknownNameError(f"number of a call in plot {name!r}", figure, _OF_CALLS)
    else:
        check_columns(figures)
    spec = PlotSpec(
        name, str(data.get("title", name)), kind, figures, x, by, only, bool(data.get("fit", False))
    )
    places = [(spec.called(one), one.labels.get(x)) for one in variants if takes(only, one)]
    if len(set(places)) < len(places):
        raise ConfigError(
            f"suite plot {name!r}: two runs share a place; add an axis to `by`, or fix it in `only`"
        )
    return spec


def make_plot(spec: PlotSpec, every: Sequence[tuple[Variant, Shown]]) -> Plot | None:
    """The plot of these runs, or None where none of them is meant; positions are places in `every`."""
    chosen = [(place, *one) for place, one in enumerate(every) if takes(spec.only, one[0])]
    if not chosen:
        return None
    names = list(dict.fromkeys(spec.called(variant) for _, variant, _ in chosen))
    axes = [axis for axis in spec.by if axis != spec.x]
    places = {
        names.index(spec.called(variant)): {a: variant.labels[a] for a in axes if a in variant.labels}
        for _, variant, _ in chosen
    }
    kinds = sorted({kind for _, _, shown in chosen for kind in shown.run.calls["kind"].unique()})
    said = [f"Latencies are {', '.join(kinds)}."] if kinds else []
    if spec.kind == "calls":
        panels, more = _calls(spec, chosen, names)
        return Plot(spec.name, spec.title, tuple(panels), (*more, *said), places)
    panels = []
    order = list(dict.fromkeys(v.labels[spec.x] for _, v, _ in chosen if spec.x in v.labels))
    for number, figure in enumerate(spec.figures):
        label = column_of(figure).header + (f" ({', '.join(kinds)})" if figure.startswith("latency") else "")
        marks = [
            Mark(
                group=variant.labels.get(spec.x, ""),
                name=spec.called(variant),
                colour=names.index(spec.called(variant)),
                run=place,
                figure=estimate,
                reported=shown.reported.get(figure),
            )
            for place, variant, shown in chosen
            if isinstance(estimate := cell_of(figure, shown), Estimate)
        ]
        if spec.kind == "bar":
            draw = partial(suite_plots.bars, marks=marks, label=label)
            panels.append(Panel(suite_plots.bars_height(marks), draw))
        else:
            keyed, labels = number == 0, (spec.x if figure == spec.figures[-1] else "", label)
            panels.append(
                Panel(
                    suite_plots.lines_height(marks, keyed=keyed),
                    partial(suite_plots.lines, marks=marks, places=order, labels=labels, keyed=keyed),
                )
            )
        if any(mark.reported is not None for mark in marks):
            said.append("Rings: the paper, with its own worlds, planners and machines.")
    lines = ["Bars and lines through the dots are 95 % intervals.", *dict.fromkeys(said)]
    return Plot(spec.name, spec.title, tuple(panels), tuple(lines), places)


def _calls(
    spec: PlotSpec, chosen: Iterable[tuple[int, Variant, Shown]], names: list[str]
) -> tuple[list[Panel], list[str]]:
    """Call by call over one episode: the longest, in all runs together, of those that all of them have."""
    runs = [(place, variant, shown.run) for place, variant, shown in chosen]
    lengths = [dict(run.episodes.select("seed", "steps").iter_rows()) for _, _, run in runs]
    shared = set.intersection(*map(set, lengths))
    if not shared:
        return [Panel(1.0, partial(suite_plots.calls, traces=[], label=""))], ["No seed is shared by all."]
    # Sorted, so that among equals the choice is always the same.
    seed = max(sorted(shared), key=lambda seed: sum(steps[seed] for steps in lengths))
    said = [f"One episode of each run, seed {seed}: the longest of those that all runs have."]
    panels = []
    for number, figure in enumerate(spec.figures):
        traces = []
        for place, variant, run in runs:
            steps, values = _of_episode(run, seed, figure)
            fitted = None
            if spec.fit and figure.startswith("tokens") and len(steps) > 1:
                agents = int(variant.config.world.options.get("agents", 1))
                grown: Counter[tuple[int, int | None]] = Counter()
                for t, new, old in zip(steps, values, [0, *values], strict=False):
                    # Counted from the first call, for `fit_growth` takes step 0 as the start.
                    grown[t - steps[0], None] += int(new - old)
                growth = fit_growth(grown, agents)
                slope = growth.per_agent_step * agents
                fitted = growth.start - slope * steps[0], slope
                said.append(
                    f"{spec.called(variant)}: N_t = {growth.start:.0f} + t · {agents} · "
                    f"{growth.per_agent_step:.2f} {_OF_CALLS[figure]} (Eq. 3, n per agent and step)."
                )
            name = spec.called(variant)
            traces.append(Trace(name, names.index(name), place, steps, values, fitted))
        keyed = number == 0
        height = suite_plots.traces_height(traces, keyed=keyed)
        last = figure == spec.figures[-1]
        kinds = sorted({kind for _, _, run in runs for kind in run.calls["kind"].unique()})
        label = _OF_CALLS[figure] + (f" ({', '.join(kinds)})" if figure.endswith("_ms") else "")
        draw = partial(suite_plots.calls, traces=traces, label=label, keyed=keyed, last=last)
        panels.append(Panel(height, draw))
    return panels, said


def _of_episode(run: Run, seed: int, figure: str) -> tuple[list[int], list[float]]:
    ends = run.episodes.filter(seed=seed).select("episode").head(1)
    calls = run.calls.join(ends, on="episode", how="semi").filter(EXECUTED).sort("t", "index")
    return calls["t"].to_list(), calls[figure].to_list()
