"""Configurations of runs: one by name or file, or a grid of them along axes.

    grid:                       # every combination of these values
      controller.cooldown: [0, 3]
      controller.commit: [0, 2]
    axes:                       # the same, with names and several keys at once
      rules:
        ours: {rules: brace}
        ours without overrides: {rules: brace, controller.overrides: []}

`blocks` holds several such {set, grid, axes}.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from brace.errors import ConfigError, UnknownNameError, suggestion
from brace.loop.build import check_parts
from brace.loop.config import RunConfig, load_config, naming, read_yaml
from brace.registry import worlds

GRID_KEYS = ("set", "grid", "axes")


@dataclass(frozen=True)
class Variant:
    """One run of a suite."""

    labels: dict[str, str]
    """Its place on each axis."""
    config: RunConfig

    @property
    def label(self) -> str:
        """Its labels for people."""
        return " · ".join(f"{axis} {label}" for axis, label in self.labels.items()) or self.config.name

    @property
    def slug(self) -> str:
        """A folder name made of its labels."""
        text = "__".join(f"{axis}-{label}" for axis, label in self.labels.items()) or "base"
        return re.sub(r"[^A-Za-z0-9_.=-]+", "-", text)


def axes_of(variants: Iterable[Variant]) -> tuple[str, ...]:
    """All axes, in order; not every run needs a place on each."""
    return tuple(dict.fromkeys(axis for variant in variants for axis in variant.labels))


def check_labels(chosen: Mapping[str, Sequence[str]], variants: Sequence[Variant], what: str) -> None:
    """Refuse axes and labels that no run has."""
    for axis, labels in chosen.items():
        there = sorted({variant.labels[axis] for variant in variants if axis in variant.labels})
        if not there:
            raise UnknownNameError(f"axis {what}", axis, axes_of(variants))
        for label in labels:
            if label not in there:
                raise UnknownNameError(f"{axis} {what}", label, there)


def takes(chosen: Mapping[str, Sequence[str]], variant: Variant) -> bool:
    """Whether it has one of the chosen labels on each axis; who has no place on an axis is taken."""
    return all(axis not in variant.labels or variant.labels[axis] in of for axis, of in chosen.items())


def load_run_config(name_or_path: str, overrides: Mapping[str, Any] | None = None) -> RunConfig:
    """A built-in configuration by name, one from a YAML file, or the reference run of a world by its name."""
    shipped = shipped_files("configs")
    if name_or_path in worlds.names():
        base = read_yaml(shipped["reference"]) | {"name": name_or_path, "world": name_or_path}
    else:
        base = read_yaml(find_file(name_or_path, shipped, "configuration or world", worlds.names()))
    with naming(name_or_path):
        config = load_config(with_overrides(base, overrides or {}))
        check_parts(config)
    return config


def shipped_files(folder: str) -> dict[str, Path]:
    """The YAML files of a folder of this package, by name."""
    home = Path(str(resources.files("brace.bench"))) / folder
    return {path.stem: path for path in sorted(home.glob("*.yaml"))}


def find_file(name_or_path: str, known: Mapping[str, Path], what: str, others: Iterable[str] = ()) -> Path:
    """The file of a known name, or the file that is named itself."""
    if name_or_path in known:
        return known[name_or_path]
    if Path(name_or_path).suffix not in (".yaml", ".yml"):
        raise UnknownNameError(what, name_or_path, [*known, *others])
    return Path(name_or_path)


def expand(
    blocks: Iterable[Mapping[str, Any]], base: Mapping[str, Any], overrides: Mapping[str, Any]
) -> list[Variant]:
    """All runs that these {set, grid, axes} make of one base configuration."""
    variants = []
    for block in blocks:
        known_keys(block, GRID_KEYS, "suite block")
        for point in itertools.product(*_axes(block)):
            settings = dict(block.get("set") or {})
            for _, _, values in point:
                settings |= values
            config = load_config(with_overrides(base, settings | dict(overrides)))
            variants.append(Variant({axis: label for axis, label, _ in point}, config))
    slugs = [variant.slug for variant in variants]
    for slug in slugs:
        if slugs.count(slug) > 1:
            raise ConfigError(f"two runs of the suite are called {slug!r}; give their axes different names")
    return variants


def with_overrides(base: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with dotted keys set: `controller.cooldown` reaches into `controller`."""
    result = copy.deepcopy(dict(base))
    for key, value in settings.items():
        *folders, leaf = key.split(".")
        place = result
        for folder in folders:
            inner = place.get(folder)
            # A part may be given by its name alone, `planner: embedded`.
            if isinstance(inner, str):
                inner = {"name": inner}
            if inner is None:
                inner = {}
            if not isinstance(inner, dict):
                raise ConfigError(f"cannot set {key!r}: {folder!r} is a value, not a group of settings")
            place[folder] = inner
            place = inner
        # Who imports more takes nothing away.
        before = place.get(leaf) or [] if key == "imports" else None
        # A copy, for the same value goes into several runs.
        place[leaf] = copy.deepcopy(value) if before is None else [*before, *value]
    return result


def parse_setting(text: str) -> tuple[str, Any]:
    """`controller.cooldown=3` from the command line; the value is read as YAML."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"cannot read the setting {text!r}; write key=value, e.g. controller.cooldown=3")
    try:
        return key.strip(), yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"cannot read the value of {key!r}: {value!r}") from error


def _axes(block: Mapping[str, Any]) -> list[list[tuple[str, str, dict[str, Any]]]]:
    axes = [
        [(axis, str(label), dict(values or {})) for label, values in points.items()]
        for axis, points in block.get("axes", {}).items()
    ]
    for key, values in block.get("grid", {}).items():
        if not isinstance(values, list):
            raise ConfigError(f"grid.{key}: expected a list of values")
        # A part that is written with its options is called by its name.
        labels = [value.get("name", value) if isinstance(value, dict) else value for value in values]
        axis = key.rpartition(".")[2]
        axes.append([(axis, str(label), {key: value}) for label, value in zip(labels, values, strict=True)])
    return axes


def known_keys(data: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    """Refuse a key nobody reads, with the nearest one that somebody does."""
    for key in data:
        if key not in known:
            raise ConfigError(f"{what}: unknown key {key!r}{suggestion(str(key), known)}")
