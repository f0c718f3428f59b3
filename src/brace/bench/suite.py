"""A suite: a comparison of the paper, put together from parts that were fixed beforehand.

name: snapshot
title: Replanning cost and outcome in three worlds
about: [what is compared, and how]
axes:
  world: [babyai-v1, drones-v1]            # names of parts.yaml, or {label: settings}, as in a sweep
  method: [No BRACE, BRACE + E-RECAP]
columns: [success, latency_p95, miss_rate] # figures of a run, or those of `brace.bench.columns`
baseline: {method: No BRACE}               # what the other rows are compared with, seed by seed
paper: [{world: babyai-v1, method: No BRACE, miss_rate: 85.5}]
quick: {episodes: 1, only: {world: [babyai-v1]}, set: {…}}
smoke: {…}                                 # the same for a test of twenty seconds
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from brace.bench.columns import check_columns
from brace.bench.grid import Sweep, Variant, expand, known_keys, read_yaml
from brace.errors import ConfigError, UnknownNameError

Form = Literal["full", "quick", "smoke"]
_PARTS = "parts"
_OWN = ("title", "about", "columns", "baseline", "audit", "paper", "quick", "smoke")
_GRID = ("name", "set", "grid", "axes", "blocks")
_FORM = ("episodes", "only", "set")
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
"""What all suites share: the embedded planner, measured time, robots that go on while it thinks."""


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

    def baseline_of(self, variant: Variant) -> Variant | None:
        """The row this one is compared with; None for a baseline itself, or where there is none."""
        wanted = variant.labels | self.baseline
        if not self.baseline or wanted == variant.labels:
            return None
        return next((other for other in self.variants if other.labels == wanted), None)

    def reported(self, variant: Variant) -> dict[str, Any]:
        """What the paper reports for this row."""
        found: dict[str, Any] = {}
        for row in self.paper:
            labels = {key: str(value) for key, value in row.items() if key in variant.labels}
            if all(variant.labels[axis] == label for axis, label in labels.items()):
                found |= {key: value for key, value in row.items() if key not in variant.labels}
        return found


def builtin_suites() -> dict[str, Path]:
    """The suites that come with the package."""
    home = Path(str(resources.files("brace.bench"))) / "suites"
    return {path.stem: path for path in sorted(home.glob("*.yaml")) if path.stem != _PARTS}


def load_suite(name_or_path: str, form: Form = "full", overrides: Mapping[str, Any] | None = None) -> Suite:
    """A suite by name or from a YAML file; `overrides` apply to every run of it."""
    known = builtin_suites()
    if name_or_path in known:
        path = known[name_or_path]
    elif Path(name_or_path).suffix in (".yaml", ".yml"):
        path = Path(name_or_path)
    else:
        raise UnknownNameError("suite", name_or_path, known)
    return make_suite(read_yaml(path), form, overrides or {})


def make_suite(data: Mapping[str, Any], form: Form, overrides: Mapping[str, Any]) -> Suite:
    """The suite that `data` describes, in one of its forms."""
    known_keys(data, (*_GRID, *_OWN), "suite")
    chosen = data.get(form, {}) if form != "full" else {}
    known_keys(chosen, _FORM, f"suite {form}")
    settings = dict(chosen.get("set", {}))
    if "episodes" in chosen:
        settings["episodes"] = chosen["episodes"]
    grid = {key: data[key] for key in _GRID if key in data} | {"base": BASE}
    grid["axes"] = _resolved(data.get("axes", {}))
    sweep = expand(grid, settings | dict(overrides))
    variants = _only(sweep, chosen.get("only", {}))
    axes = set(variants[0].labels)
    baseline = {axis: str(label) for axis, label in data.get("baseline", {}).items()}
    known_keys(baseline, tuple(axes), "suite baseline")
    columns = tuple(data.get("columns", ()))
    check_columns(columns)
    for row in data.get("paper", []):
        known_keys(row, (*axes, *columns), "suite paper")
    audit = data.get("audit")
    if audit is not None and audit not in _AUDITS:
        raise UnknownNameError("audit", str(audit), _AUDITS)
    return Suite(
        sweep.name, str(data.get("title", sweep.name)), tuple(data.get("about", ())), variants, columns,
        baseline, tuple(data.get("paper", ())), audit, form,
    )  # fmt: skip


def _resolved(axes: Mapping[str, Any]) -> dict[str, Any]:
    """Names instead of settings are those of the parts."""
    parts: dict[str, Any] | None = None
    found: dict[str, Any] = {}
    for axis, points in axes.items():
        if not isinstance(points, list):
            found[axis] = points
            continue
        parts = parts or read_yaml(Path(str(resources.files("brace.bench"))) / "suites" / f"{_PARTS}.yaml")
        known = parts.get(axis)
        if known is None:
            raise UnknownNameError("axis with parts", axis, parts)
        for label in points:
            if label not in known:
                raise UnknownNameError(axis, str(label), known)
        found[axis] = {label: known[label] for label in points}
    return found


def _only(sweep: Sweep, chosen: Mapping[str, list[str]]) -> tuple[Variant, ...]:
    """The variants with one of the chosen labels on each axis."""
    if not sweep.variants:
        raise ConfigError(f"suite {sweep.name!r} has no runs: give it axes")
    for axis, labels in chosen.items():
        there = {variant.labels.get(axis) for variant in sweep.variants}
        for label in labels:
            if label not in there:
                raise UnknownNameError(f"{axis} to choose", str(label), sorted(map(str, there)))
    return tuple(
        variant
        for variant in sweep.variants
        if all(variant.labels[axis] in labels for axis, labels in chosen.items())
    )
