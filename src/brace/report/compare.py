"""Two runs against each other: what changed between them, and which differences are more than noise."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from brace.ledger.differences import FEWEST, differences, over_seeds, same_latency, shared_seeds, verdict
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
    before, after = (
        {
            "configuration": dict(_flat(made.config)),
            "code": {"commit": made.commit or _ABSENT},
            "versions": made.versions,
            "host": made.host,
        }
        for made in (a.manifest, b.manifest)
    )
    rows = [
        Row((name, old, new), group)
        for group in before
        for name in dict.fromkeys((*before[group], *after[group]))
        if (old := before[group].get(name, _ABSENT)) != (new := after[group].get(name, _ABSENT))
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
    stems = {
        name: "latency" if name.startswith("latency_") else name.partition(".")[0]
        for of_run in figures
        for name in of_run
    }
    rows = []
    for name in sorted((n for n in stems if stems[n] in _SHOWN), key=lambda n: _SHOWN.index(stems[n])):
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
