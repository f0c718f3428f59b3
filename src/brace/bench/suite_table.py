"""The table of a suite: ours with intervals, the paper's beside it, and what differs from the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from brace.bench.columns import Shown, cell_of, column_of
from brace.bench.grid import Variant
from brace.bench.suite import Suite
from brace.errors import LedgerError
from brace.ledger.intervals import SHARE
from brace.ledger.manifest import MANIFEST
from brace.ledger.paired import FEWEST, no_difference, paired_difference, verdict
from brace.ledger.reader import Run, load_run
from brace.report.rows import Cell, Column, Row, Table
from brace.report.tables import phase_table, suppressed_table

_PAPER = "· paper"


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
    group_axis, *others = _axes(suite.variants)
    axes = others or [group_axis]
    columns = [*map(Column, axes), Column("n", right=True), *map(column_of, suite.columns)]
    if suite.baseline:
        columns += [Column("success to baseline", right=True), Column("")]
    rows = []
    for variant in shown:
        group = variant.labels[group_axis] if others else ""
        cells: list[Cell] = [variant.labels[axis] for axis in axes]
        cells += [runs[variant.slug].episodes.height, *_figures(suite, variant, runs)]
        if suite.baseline:
            cells += _compared(suite, variant, runs)
        rows.append(Row(tuple(cells), group))
        if reported := suite.reported(variant):
            told: list[Cell] = [
                _PAPER,
                *[""] * len(axes),
                *(reported.get(name, "") for name in suite.columns),
            ]
            rows.append(Row((*told, *[""] * (len(columns) - len(told))), group))
    partial = missing(suite, runs)
    return Table(
        suite.title, tuple(columns), tuple(rows), tuple(_legend(suite, runs)), (partial,) if partial else ()
    )


def _legend(suite: Suite, runs: Mapping[str, Run]) -> Iterator[str]:
    kinds = sorted({kind for run in runs.values() for kind in run.calls["kind"].unique()})
    yield "[ ]: 95 % interval (Wilson for rates, bootstrap for the rest); n: episodes."
    yield f"Latencies are {', '.join(kinds) or 'none: no call was made'}."
    if suite.baseline:
        wanted = ", ".join(suite.baseline.values())
        yield f"Baseline: {wanted}. Differences in success, in points, are paired over the same seeds."
    if any(suite.reported(variant) for variant in suite.variants):
        yield f"“{_PAPER}”: the row above in the paper, with its own worlds, planners and machines."


def _figures(suite: Suite, variant: Variant, runs: Mapping[str, Run]) -> list[Cell]:
    other = suite.baseline_of(variant)
    baseline = runs.get(other.slug) if other is not None else None
    shown = Shown.of(runs[variant.slug], baseline)
    return [cell_of(name, shown) for name in suite.columns]


def _compared(suite: Suite, variant: Variant, runs: Mapping[str, Run]) -> list[Cell]:
    other = suite.baseline_of(variant)
    if other is None or other.slug not in runs:
        return [None, "baseline" if other is None else ""]
    ours, theirs = (_success(runs[one.slug]) for one in (variant, other))
    difference = paired_difference(ours, theirs, SHARE)
    few = difference.n < FEWEST and not no_difference(difference)
    return [difference, "too few seeds to tell" if few else verdict(difference)]


def _success(run: Run) -> dict[int, float]:
    judged = run.episodes.drop_nulls("success").select("seed", "success").iter_rows()
    return {seed: float(success) for seed, success in judged}


def _axes(variants: Iterable[Variant]) -> list[str]:
    return list(dict.fromkeys(axis for variant in variants for axis in variant.labels))
