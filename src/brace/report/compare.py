"""Two runs against each other: what changed between them, and which differences are more than noise."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from brace.ledger.differences import FEWEST, differences, over_seeds, same_latency, shared_seeds, verdict
from brace.ledger.intervals import Estimate
from brace.ledger.metrics import latency_kinds, summarise
from brace.ledger.reader import Run
from brace.report.provenance import configured, distinct, ranges
from brace.report.rows import Column, Row, Table
from brace.report.tables import named, unit_of, world_figures

_SHOWN = ("success", "calls_per_episode", "latency", "miss_rate", "tokens_in", "tokens_after", "churn",
          "wait_per_episode", "steps", "figure")  # fmt: skip
_OF_LATENCY = ("latency", "miss_rate", "wait_per_episode")
_LEGEND = (
    "[ ]: 95 % interval (A and B: Wilson for rates, bootstrap for the rest; B − A: bootstrap over seeds). A"
    " difference of rates is in points.",
    "“no difference shown”: the interval of the difference covers 0. Of twenty figures that are the same in"
    " truth, about one looks different by chance.",
)
_ABSENT = "(absent)"


def changes_table(a: Run, b: Run) -> Table:
    """What differs in how the two runs were made: a row for each setting, version or fact that changed."""
    rows = [
        Row((name, old, new), group)
        for group, (before, after) in _made(a, b).items()
        for name in dict.fromkeys((*before, *after))
        if (old := before.get(name, _ABSENT)) != (new := after.get(name, _ABSENT))
    ]
    notes = [] if rows else ["nothing: the same configuration, versions, commit and host"]
    if any(run.manifest.commit.endswith("+") for run in (a, b)):
        notes.append(
            "+ after a commit: with uncommitted changes, so the same commit need not be the same code"
        )
    return Table("What changed", (Column(""), Column("A"), Column("B")), tuple(rows), (), tuple(notes))


def compare_table(a: Run, b: Run) -> Table:
    """The important figures of both, B less A, and whether that is more than noise."""
    seeds = shared_seeds(a, b)
    notes = tuple(_warnings(a, b, seeds))
    if seeds:
        a, b = over_seeds(a, seeds), over_seeds(b, seeds)
    changed = differences(b, a)
    figures = [{**summarise(run), **world_figures(run)} for run in (a, b)]
    latency = same_latency(a, b)
    rows = []
    for name in _in_order(figures):
        found = [of_run.get(name) for of_run in figures]
        unit = next(unit_of(estimate) for estimate in found if estimate is not None)
        compared = latency or not name.startswith(_OF_LATENCY)
        difference = changed.get(name) if compared else None
        said = "not compared" if difference is None or difference.value is None else verdict(difference)
        rows.append(Row((named(name), unit, *found, difference, said)))
    columns = (
        Column("figure"), Column("unit"), Column("A", right=True), Column("B", right=True),
        Column("B − A", right=True), Column("B has"),
    )  # fmt: skip
    title = f"{a.manifest.name} (A) against {b.manifest.name} (B)"
    return Table(title, columns, tuple(rows), _LEGEND, notes)


def _in_order(figures: list[dict[str, Estimate]]) -> list[str]:
    names = dict.fromkeys(name for of_run in figures for name in of_run)
    stems = {name: _stem(name) for name in names}
    return sorted(
        (name for name in names if stems[name] in _SHOWN), key=lambda name: _SHOWN.index(stems[name])
    )


def _stem(name: str) -> str:
    stem = name.partition(".")[0]
    return "latency" if stem.startswith("latency_") else stem


def _made(a: Run, b: Run) -> dict[str, tuple[Mapping[str, str], Mapping[str, str]]]:
    """How each was made, under the headings of the table."""
    old, new = a.manifest, b.manifest
    return {
        "configuration": (dict(_flat(old.config)), dict(_flat(new.config))),
        "code": ({"commit": old.commit or _ABSENT}, {"commit": new.commit or _ABSENT}),
        "versions": (old.versions, new.versions),
        "host": (old.host, new.host),
    }


def _flat(config: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Settings by dotted key; lists are one value."""
    for key, value in config.items():
        name = f"{above}{key}"
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{name}.")
        else:
            yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _warnings(a: Run, b: Run, seeds: list[int]) -> Iterator[str]:
    """What a reader must know before trusting a difference."""
    told = [distinct(run.episodes, "world") or configured(run.manifest, "world") for run in (a, b)]
    if told[0] != told[1]:
        yield (
            f"the worlds differ (A: {told[0]}, B: {told[1]}): a shared seed is not the same episode, and"
            " differences are those of the worlds too"
        )
    finished = [tuple(run.episodes["seed"]) for run in (a, b)]
    if set(finished[0]) != set(finished[1]):
        has = ", ".join(f"{who} has {ranges(of) or 'none'}" for who, of in zip("AB", finished, strict=True))
        rest = (
            f"all figures are over the {len(seeds)} they share ({ranges(tuple(seeds))})"
            if seeds
            else "they share none, so nothing is compared"
        )
        yield f"the seeds of finished episodes differ: {has}; {rest}"
    elif not seeds:
        yield "no finished episode with a seed: nothing can be paired, so nothing is compared"
    if seeds and len(seeds) < FEWEST:
        yield f"fewer than {FEWEST} shared seeds ({len(seeds)}): their intervals are too narrow to go by"
    if not same_latency(a, b):
        kinds = [", ".join(latency_kinds(run)) for run in (a, b)]
        yield (
            f"the latency kinds differ (A: {kinds[0]}, B: {kinds[1]}): latencies, misses and waits are not"
            " compared"
        )
