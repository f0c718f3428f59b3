"""The table of a suite: ours with intervals, the paper's beside it, and what differs from the baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from brace.bench.columns import CHI_SQUARED_95, PAPER, Shown, cell_of, column_of
from brace.bench.grid import Variant
from brace.bench.suite import Suite
from brace.errors import LedgerError
from brace.ledger.differences import paired_difference, verdict
from brace.ledger.intervals import SHARE, chance_of_deviance
from brace.ledger.manifest import MANIFEST
from brace.ledger.metrics import summarise
from brace.ledger.reader import Run, load_run
from brace.report.rows import Cell, Column, Row, Table
from brace.report.tables import phase_table, suppressed_table

_PAPER = "· paper"


def finished_runs(suite: Suite, folder: Path) -> dict[str, Shown]:
    """The runs that have at least one finished episode, by the variant's slug, with their figures."""
    found: dict[str, Run] = {}
    for variant in suite.variants:
        directory = folder / variant.slug
        if (directory / MANIFEST).exists() and not (run := load_run(directory)).episodes.is_empty():
            found[variant.slug] = run
    if not found:
        raise LedgerError(f"{folder} holds no finished episode of the suite {suite.name!r}: run it first")
    every = {}
    for variant in suite.variants:
        if run_of := found.get(variant.slug):
            other = suite.baseline_of(variant)
            baseline = None if other is None else found.get(other.slug)
            reported = suite.reported(variant)
            every[variant.slug] = Shown(run_of, summarise(run_of), baseline, reported, suite.paper_episodes)
    return every


def missing(suite: Suite, every: Mapping[str, Shown]) -> str:
    """Empty, or how many episodes are not finished."""
    planned = sum(variant.config.episodes for variant in suite.variants)
    done = sum(shown.run.episodes.height for shown in every.values())
    return f"partial: {planned - done} of {planned} episodes are not finished" if done < planned else ""


def suite_tables(suite: Suite, every: Mapping[str, Shown]) -> list[Table]:
    """The suite's own table, then one for each of its runs if it has an audit."""
    tables = [_main(suite, every)]
    make = {"suppressed": suppressed_table, "phases": phase_table}.get(suite.audit or "")
    for variant in suite.variants:
        if make is not None and variant.slug in every:
            made = make(every[variant.slug].run)
            tables.append(replace(made, title=f"{variant.label}: {made.title}"))
    return tables


def _main(suite: Suite, every: Mapping[str, Shown]) -> Table:
    group_axis, *others = suite.axes
    axes = others or [group_axis]
    columns = [*map(Column, axes), Column("n", right=True), *map(column_of, suite.columns)]
    if suite.baseline:
        columns += [Column("success to baseline", right=True), Column("")]
    rows = []
    for variant in suite.variants:
        if (shown := every.get(variant.slug)) is None:
            continue
        group = variant.labels[group_axis] if others else ""
        cells: list[Cell] = [variant.labels.get(axis, "") for axis in axes]
        cells += [shown.run.episodes.height, *(cell_of(name, shown) for name in suite.columns)]
        if suite.baseline:
            cells += _compared(suite, variant, shown)
        rows.append(Row(tuple(cells), group))
        if shown.reported:
            told = (_PAPER, *[""] * len(axes), *(shown.reported.get(name, "") for name in suite.columns))
            rows.append(Row((*told, *[""] * (len(columns) - len(told))), group))
    partial = missing(suite, every)
    legend = tuple(_legend(suite, every))
    return Table(suite.title, tuple(columns), tuple(rows), legend, (partial,) if partial else ())


def _legend(suite: Suite, every: Mapping[str, Shown]) -> Iterator[str]:
    kinds = sorted({kind for shown in every.values() for kind in shown.run.calls["kind"].unique()})
    yield "[ ]: 95 % interval (Wilson for rates, bootstrap for the rest); n: episodes."
    yield f"Latencies are {', '.join(kinds) or 'none: no call was made'}."
    if suite.baseline:
        wanted = ", ".join(suite.baseline.values())
        yield f"Baseline: {wanted}. Differences in success, in points, are paired over the same seeds."
    if any(suite.reported(variant) for variant in suite.variants):
        yield f"“{_PAPER}”: the row above in the paper, with its own worlds, planners and machines."
    for name in suite.columns:
        found = [shown.deviance(name.removeprefix(PAPER)) for shown in every.values()]
        deviances = [deviance for deviance in found if deviance is not None]
        if name.startswith(PAPER) and deviances:
            # Of thirteen rows judged one by one, one may well lie outside: so all of them at once, too.
            inside = sum(deviance <= CHI_SQUARED_95 for deviance in deviances)
            chance = chance_of_deviance(sum(deviances), len(deviances))
            yield (
                f"{column_of(name).header}: within sampling error of the paper's rate over its"
                f" {suite.paper_episodes} episodes (chi-squared, 95 %), {inside} of {len(deviances)} rows;"
                f" all rows together: deviance {sum(deviances):.1f}, p = {chance:.2f}."
            )


def _compared(suite: Suite, variant: Variant, shown: Shown) -> list[Cell]:
    if shown.baseline is None:
        return [None, "baseline" if suite.baseline_of(variant) is None else ""]
    ours, theirs = (
        {
            seed: float(success)
            for seed, success in run.episodes.select("seed", "success").drop_nulls().iter_rows()
        }
        for run in (shown.run, shown.baseline)
    )
    difference = paired_difference(ours, theirs, SHARE)
    return [difference, verdict(difference)]
