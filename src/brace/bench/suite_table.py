"""The table of a suite: ours with intervals, the paper's beside it, and what differs from the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from brace.bench.columns import Shown, cell_of, column_of
from brace.bench.grid import Variant
from brace.bench.suite import Suite
from brace.errors import LedgerError
from brace.ledger.intervals import SHARE
from brace.ledger.manifest import MANIFEST
from brace.ledger.paired import paired_difference, verdict
from brace.ledger.reader import Run, load_run
from brace.report.rows import Cell, Column, Row, Table
from brace.report.tables import phase_table, suppressed_table


def finished_runs(suite: Suite, folder: Path) -> dict[str, Run]:
    """The runs that have at least one finished episode, by the variant's slug."""
    found: dict[str, Run] = {}
    for variant in suite.variants:
        directory = folder / variant.slug
        if (directory / MANIFEST).exists() and not (run := load_run(directory)).episodes.is_empty():
            found[variant.slug] = run
    if not found:
        raise LedgerError(f"{folder} holds no finished episode of the suite {suite.name!r}: run it first")
    return found


def missing(suite: Suite, runs: Mapping[str, Run]) -> str:
    """Empty, or how many episodes are not finished."""
    planned = sum(variant.config.episodes for variant in suite.variants)
    done = sum(run.episodes.height for run in runs.values())
    return f"partial: {planned - done} of {planned} episodes are not finished" if done < planned else ""


def suite_tables(suite: Suite, runs: Mapping[str, Run]) -> list[Table]:
    """The suite's own table, then one for each of its runs if it has an audit."""
    tables = [_main(suite, runs)]
    make = {"suppressed": suppressed_table, "phases": phase_table}.get(suite.audit or "")
    for variant in suite.variants:
        if make is not None and variant.slug in runs:
            made = make(runs[variant.slug])
            tables.append(
                Table(f"{variant.label}: {made.title}", made.columns, made.rows, made.legend, made.notes)
            )
    return tables


def _main(suite: Suite, runs: Mapping[str, Run]) -> Table:
    shown = [variant for variant in suite.variants if variant.slug in runs]
    group_axis, *axes = _axes(suite.variants)
    reported = {name for variant in shown for name in suite.reported(variant)}
    columns = [Column(axis) for axis in axes or [group_axis]]
    columns.append(Column("n", right=True))
    for name in suite.columns:
        columns.append(column_of(name))
        if name in reported:
            columns.append(Column("paper", right=True))
    if suite.baseline:
        columns += [Column("success to baseline, points", right=True), Column("")]
    rows = []
    for variant in shown:
        labels = [variant.labels[axis] for axis in axes or [group_axis]]
        group = variant.labels[group_axis] if axes else ""
        cells = [*labels, runs[variant.slug].episodes.height, *_figures(suite, variant, runs, reported)]
        if suite.baseline:
            cells += _compared(suite, variant, runs)
        rows.append(Row(tuple(cells), group))
    kinds = sorted({kind for run in runs.values() for kind in run.calls["kind"].unique()})
    legend = [
        "[ ]: 95 % interval (Wilson for rates, bootstrap for the rest); n: episodes.",
        f"Latencies are {', '.join(kinds) or 'none'}.",
    ]
    if suite.baseline:
        wanted = ", ".join(suite.baseline.values())
        legend.append(f"Baseline: {wanted}; differences are paired over the same seeds.")
    if reported:
        legend.append("paper: its own worlds, planners and machines.")
    partial = missing(suite, runs)
    return Table(suite.title, tuple(columns), tuple(rows), tuple(legend), (partial,) if partial else ())


def _figures(suite: Suite, variant: Variant, runs: Mapping[str, Run], reported: set[str]) -> list[Cell]:
    other = suite.baseline_of(variant)
    baseline = runs.get(other.slug) if other is not None else None
    of_run, of_paper = Shown.of(runs[variant.slug], baseline), suite.reported(variant)
    cells: list[Cell] = []
    for name in suite.columns:
        cells.append(cell_of(name, of_run))
        if name in reported:
            cells.append(of_paper.get(name))
    return cells


def _compared(suite: Suite, variant: Variant, runs: Mapping[str, Run]) -> list[Cell]:
    other = suite.baseline_of(variant)
    if other is None or other.slug not in runs:
        return [None, "baseline" if other is None else ""]
    ours, theirs = (_success(runs[one.slug]) for one in (variant, other))
    difference = paired_difference(ours, theirs, SHARE)
    return [difference, verdict(difference)]


def _success(run: Run) -> dict[int, float]:
    judged = run.episodes.drop_nulls("success").select("seed", "success").iter_rows()
    return {seed: float(success) for seed, success in judged}


def _axes(variants: Iterable[Variant]) -> list[str]:
    return list(dict.fromkeys(axis for variant in variants for axis in variant.labels))
