"""A suite: a comparison of the paper, put together from parts that were fixed beforehand.

name: snapshot
title: Replanning cost and outcome in three worlds
about: [what is compared, and how]
base: {world: proxy-v1, …}                 # instead of `BASE`, which all other suites share
axes:
  world: [babyai-v1, drones-v1]            # names of parts.yaml, or {label: settings}
  method: [No BRACE, BRACE + E-RECAP]
columns: [success, latency_p95, miss_rate] # figures of a run, or those of `brace.bench.columns`
baseline: {method: No BRACE}               # what the other rows are compared with, seed by seed
paper: [{world: babyai-v1, method: No BRACE, miss_rate: 85.5}]
paper_episodes: 60                         # for columns `paper.success`: is our rate the paper's?
plots: [{name: wait, kind: bar, figures: [wait_per_episode], x: world, by: [method]}]
quick: {episodes: 1, only: {world: [babyai-v1]}, set: {…}}
smoke: {…}                                 # the same for a test of twenty seconds
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from brace.bench.columns import GENERAL, check_columns
from brace.bench.grid import (
    GRID_KEYS,
    Variant,
    axes_of,
    check_labels,
    expand,
    find_file,
    known_keys,
    shipped_files,
    takes,
)
from brace.bench.plots import PlotSpec, read_plot
from brace.errors import ConfigError, UnknownNameError
from brace.loop.config import naming, read_yaml
from brace.registry import suites

Form = Literal["full", "quick", "smoke"]
_PARTS = "parts"
_KEYS = (
    "name", "title", "about", "base", *GRID_KEYS, "blocks", "columns", "baseline", "audit", "paper",
    "paper_episodes", "plots", "quick", "smoke",
)  # fmt: skip
_AUDITS = ("suppressed", "phases")
BASE: dict[str, Any] = {
    "planner": "embedded",
    # Seeds that no planner was trained on.
    "seed": 930_001,
    # Under an override the SLO may double; the budget stays: more tokens would only make a late call later.
    "controller": {"divergence_limit": 0.5, "relax_budget": 1.0, "slo_max_ms": 2000},
    "modes": {"full": {}, "pruned": {}},
    "budget": {"mode": "full"},
    "loop": {"clock": "wall", "while_thinking": "continue", "allow_floor_overrun": True},
}
"""What suites without a `base` share: the embedded planner, measured time, robots that go on meanwhile."""


@dataclass(frozen=True)
class Suite:
    """All runs of a comparison, and how it is printed."""

    name: str
    title: str
    about: tuple[str, ...]
    variants: tuple[Variant, ...]
    columns: tuple[str, ...]
    baseline: dict[str, str]
    """Labels of the rows that others are compared with; their other labels stay the same."""
    paper: tuple[dict[str, Any], ...]
    """The paper's figures: labels of a row, and what it reports there."""
    audit: str | None
    """A further table for each run: `suppressed` or `phases`."""
    form: Form
    paper_episodes: int | None = None
    """How many episodes a row of the paper has, where rates are compared with it."""
    plots: tuple[PlotSpec, ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        """All its axes; not every run needs a place on each."""
        return axes_of(self.variants)

    def baseline_of(self, variant: Variant) -> Variant | None:
        """The row this one is compared with; None for a baseline itself, or where there is none."""
        wanted = variant.labels | self.baseline
        if not self.baseline or wanted == variant.labels:
            return None
        found = (
            other
            for other in self.variants
            if self.baseline.items() <= other.labels.items() <= wanted.items()
        )
        return next(found, None)

    def reported(self, variant: Variant) -> dict[str, Any]:
        """What the paper reports for this row."""
        found: dict[str, Any] = {}
        axes = self.axes
        for row in self.paper:
            if all(variant.labels.get(axis) == str(row[axis]) for axis in axes if axis in row):
                found |= {key: value for key, value in row.items() if key not in axes}
        return found


for _name, _path in shipped_files("suites").items():
    if _name != _PARTS:
        suites.add(_name, _path)


def suite_files() -> dict[str, Path]:
    """The suites that can be named: those of the package, and those that were added."""
    return {name: suites.get(name) for name in suites.names()}


def load_suite(name_or_path: str, form: Form = "full", overrides: Mapping[str, Any] | None = None) -> Suite:
    """A suite by name or from a YAML file; `overrides` apply to every run of it."""
    data = read_yaml(find_file(name_or_path, suite_files(), "suite"))
    with naming(name_or_path):
        return make_suite(data, form, overrides or {})


def make_suite(data: Mapping[str, Any], form: Form, overrides: Mapping[str, Any]) -> Suite:
    """The suite that `data` describes, in one of its forms."""
    known_keys(data, _KEYS, "suite")
    chosen = data.get(form, {}) if form != "full" else {}
    known_keys(chosen, ("episodes", "only", "set"), f"suite {form}")
    settings = dict(chosen.get("set", {}))
    if "episodes" in chosen:
        settings["episodes"] = chosen["episodes"]
    name = str(data.get("name", "suite"))
    if "blocks" in data and (outside := [key for key in GRID_KEYS if key in data]):
        raise ConfigError(f"suite {name!r}: {', '.join(outside)} must stand in its blocks, not beside them")
    blocks = [
        dict(block) | {"axes": _with_parts(block.get("axes", {}))}
        for block in data.get("blocks") or [{key: data[key] for key in GRID_KEYS if key in data}]
    ]
    everything = tuple(expand(blocks, data.get("base", BASE), settings | dict(overrides)))
    if not (axes := axes_of(everything)):
        raise ConfigError(f"suite {name!r} has no runs to compare: give it axes or a grid")
    only = {axis: tuple(map(str, labels)) for axis, labels in chosen.get("only", {}).items()}
    check_labels(only, everything, f"of the {form} form")
    baseline = {axis: str(label) for axis, label in data.get("baseline", {}).items()}
    known_keys(baseline, axes, "suite baseline")
    columns = tuple(data.get("columns", GENERAL))
    check_columns(columns, data.get("paper_episodes"))
    for row in data.get("paper", []):
        known_keys(row, (*axes, *columns), "suite paper")
    audit = data.get("audit")
    if audit is not None and audit not in _AUDITS:
        raise UnknownNameError("audit", str(audit), _AUDITS)
    return Suite(
        name=name,
        title=str(data.get("title", name)),
        about=tuple(data.get("about", ())),
        variants=tuple(variant for variant in everything if takes(only, variant)),
        columns=columns,
        baseline=baseline,
        paper=tuple(data.get("paper", ())),
        audit=audit,
        form=form,
        paper_episodes=data.get("paper_episodes"),
        # Against all runs: a short form may leave out labels that a plot names.
        plots=tuple(read_plot(plot, everything) for plot in data.get("plots", ())),
    )


def _with_parts(axes: Mapping[str, Any]) -> dict[str, Any]:
    """Names instead of settings are those of the parts."""
    found: dict[str, Any] = dict(axes)
    for axis, points in axes.items():
        if isinstance(points, list):
            parts = read_yaml(shipped_files("suites")[_PARTS])
            if axis not in parts:
                raise UnknownNameError("axis with parts", axis, parts)
            for label in points:
                if label not in parts[axis]:
                    raise UnknownNameError(axis, str(label), parts[axis])
            found[axis] = {label: parts[axis][label] for label in points}
    return found
