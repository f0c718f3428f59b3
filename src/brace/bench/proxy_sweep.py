"""The paper's controller sweep: our rows beside its own, and what its simulator's livelock does to them."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from brace.bench.grid import Sweep, Variant
from brace.ledger.intervals import Estimate, mean
from brace.ledger.metrics import summarise
from brace.ledger.reader import load_run

PAPER_EPISODES = 60
_CHI_SQUARED_95 = 3.841
Windows = tuple[int, int, int]

PAPER: dict[Windows | None, tuple[float, float, float, float, float]] = {
    None: (5.0, 167.18, 166.08, 157.53, 225.10),
    (0, 0, 1): (98.3, 14.37, 13.10, 0.00, 91.20),
    (0, 0, 3): (25.0, 95.72, 94.45, 88.47, 189.58),
    (0, 0, 5): (6.7, 159.68, 158.50, 154.63, 222.97),
    (0, 2, 1): (75.0, 24.40, 23.33, 14.78, 131.93),
    (0, 2, 3): (13.3, 125.98, 124.85, 121.15, 211.17),
    (0, 2, 5): (6.7, 165.50, 164.40, 162.13, 219.53),
    (3, 0, 1): (81.7, 22.90, 21.73, 11.12, 129.42),
    (3, 0, 3): (18.3, 110.73, 109.60, 104.43, 197.65),
    (3, 0, 5): (5.0, 175.25, 174.15, 171.02, 227.07),
    (3, 2, 1): (78.3, 21.78, 20.72, 12.12, 125.32),
    (3, 2, 3): (15.0, 141.27, 140.20, 137.28, 207.17),
    (3, 2, 5): (3.3, 161.98, 160.90, 158.37, 225.80),
}
"""(δ, ω, w), None for No BRACE → success %, calls, changes, deadlocks and stalled steps an episode."""

_TITLES = {
    "authors": "the authors' rules as coded",
    "brace": "BRACE (Eq. 1, windows in steps)",
    "brace-no-overrides": "BRACE with overrides off",
    "no-brace": "No BRACE",
    "no-brace-full-calls": "No BRACE, every call a full one",
}


@dataclass(frozen=True)
class Row:
    """One run of the sweep."""

    world: str
    rules: str
    windows: Windows | None
    success: Estimate
    calls: Estimate
    changes: Estimate
    churn: Estimate
    deadlocks: Estimate
    stall: Estimate

    @property
    def paper(self) -> tuple[float, float, float, float, float] | None:
        """The paper's row, where it has one for these windows."""
        return PAPER.get(self.windows) if self.rules != "no-brace-full-calls" else None

    @property
    def deviance(self) -> float | None:
        """How far the paper's count of successes and ours lie from one common rate (chi-squared)."""
        if self.paper is None or self.success.value is None:
            return None
        theirs, ours = round(self.paper[0] / 100 * PAPER_EPISODES), round(self.success.value * self.success.n)
        pooled = (theirs + ours) / (PAPER_EPISODES + self.success.n)
        deviance = _binomial_deviance(theirs, PAPER_EPISODES, pooled)
        return max(0.0, deviance + _binomial_deviance(ours, self.success.n, pooled))

    @property
    def as_in_the_paper(self) -> bool | None:
        """Whether the two success rates differ by no more than sampling error (95 %)."""
        return None if self.deviance is None else self.deviance <= _CHI_SQUARED_95


def read_row(variant: Variant, folder: Path) -> Row:
    """The figures of one run."""
    run = load_run(folder / variant.slug)
    summary = summarise(run)
    knobs = variant.config.controller
    rules = variant.labels["rules"]
    return Row(
        world=variant.labels["world"],
        rules=rules,
        windows=None if rules.startswith("no-brace") else (knobs.cooldown, knobs.commit, knobs.window),
        success=summary["success"],
        calls=summary["calls_per_episode"],
        changes=summary["changes_per_episode"],
        churn=summary["churn"],
        deadlocks=mean(run.episodes["figure.deadlocks"], "steps", "episodes"),
        stall=mean(run.episodes["figure.stall"], "steps", "episodes"),
    )


def joint_deviance(rows: list[Row]) -> tuple[float, float]:
    """All rows at once: the deviance, and the chance of a larger one if both are the same.

    Of thirteen rows compared one by one, one may well lie outside its own interval.
    """
    found = [row.deviance for row in rows if row.deviance is not None]
    deviance, degrees = sum(found), len(found)
    # Wilson and Hilferty: the cube root of chi-squared is nearly normal.
    spread = 2 / (9 * max(1, degrees))
    z = ((deviance / max(1, degrees)) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return deviance, 0.5 * math.erfc(z / math.sqrt(2))


def print_table(sweep: Sweep, folder: Path, console: Console) -> None:
    """Per world and rules the rows with intervals beside the paper's; then the livelock, plainly."""
    rows = [read_row(variant, folder) for variant in sweep.variants]
    for world in dict.fromkeys(row.world for row in rows):
        here = [row for row in rows if row.world == world]
        bare = [row for row in here if row.windows is None]
        for rules in dict.fromkeys(row.rules for row in here if row.windows is not None):
            block = [row for row in bare if row.rules == "no-brace"]
            block += [row for row in here if row.rules == rules]
            console.print(
                _table(block, f"proxy as {world} · {_TITLES[rules]}", beside_paper=world == "published")
            )
            if world == "published" and rules == "authors":
                deviance, chance = joint_deviance(block)
                inside = sum(row.as_in_the_paper is True for row in block)
                console.print(
                    f"success of the authors' rules: {inside} of {len(block)} rows within sampling error of "
                    f"the paper's (95 %); all rows together: deviance {deviance:.1f}, p = {chance:.2f}\n"
                )
    console.print(_livelock(rows))
    _write_csv(rows, folder / "table.csv")
    console.print(f"all rows: {folder / 'table.csv'}", highlight=False)


def _table(rows: list[Row], title: str, *, beside_paper: bool) -> Table:
    table = Table(
        title=title,
        box=box.SIMPLE_HEAD,
        caption=f"95 % intervals; {rows[0].success.n} episodes a row; latency modelled, not measured; "
        "✓ within sampling error of the paper's success",
    )
    for heading in ("δ ω w", "success %", "calls/ep", "changes/ep", "χ", "deadlocks/ep", "stall/ep"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        reproduces = beside_paper and row.rules in ("authors", "no-brace")
        mark = "" if not reproduces else " ✓" if row.as_in_the_paper else " ✗"
        table.add_row(
            "No BRACE" if row.windows is None else " ".join(map(str, row.windows)),
            _percent(row.success) + mark,
            *(_spread(e) for e in (row.calls, row.changes)),
            "–" if row.churn.value is None else f"{row.churn.value:.3f}",
            *(_spread(e) for e in (row.deadlocks, row.stall)),
        )
        if beside_paper and row.paper is not None:
            success, calls, changes, *stuck = (f"{value:.1f}" for value in row.paper)
            table.add_row(
                "paper", success, calls, changes, f"{row.paper[2] / row.paper[1]:.3f}", *stuck, style="dim"
            )
    return table


def _livelock(rows: list[Row]) -> Table:
    table = Table(
        "proxy", "method", "success %", "calls/ep", "deadlocks/ep", "stall/ep", box=box.SIMPLE_HEAD,
        title="The livelock: the same method, with and without the simulator's artefact",
        caption="published: nothing ticks while the planner thinks; a call does not reset the stuck count.\n"
        "corrected: both mended. Best of (δ, ω, w) by success for rules with windows.",
    )  # fmt: skip
    for world in dict.fromkeys(row.world for row in rows):
        for rules, title in _TITLES.items():
            block = [row for row in rows if row.world == world and row.rules == rules]
            if not block:
                continue
            best = max(block, key=lambda row: row.success.value or 0.0)
            windows = "" if best.windows is None else f" {best.windows}"
            figures = (_spread(e) for e in (best.calls, best.deadlocks, best.stall))
            table.add_row(world, title + windows, _percent(best.success), *figures)
    return table


def _write_csv(rows: list[Row], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = ("success", "calls", "changes", "churn", "deadlocks", "stall")
        header = [column for name in names for column in (name, f"{name}_lo", f"{name}_hi")]
        writer.writerow(
            ["world", "rules", "cooldown", "commit", "window", "episodes", *header, "paper_success_%"]
        )
        for row in rows:
            figures = [getattr(row, name) for name in names]
            cells = [bound for e in figures for bound in (e.value, e.lo, e.hi)]
            windows = row.windows or ("", "", "")
            writer.writerow(
                [row.world, row.rules, *windows, row.success.n, *cells, row.paper[0] if row.paper else ""]
            )


def _percent(estimate: Estimate) -> str:
    if estimate.value is None or estimate.lo is None or estimate.hi is None:
        return "–"
    return f"{100 * estimate.value:.1f} [{100 * estimate.lo:.0f}, {100 * estimate.hi:.0f}]"


def _spread(estimate: Estimate) -> str:
    if estimate.value is None or estimate.lo is None or estimate.hi is None:
        return "–"
    digits = 0 if estimate.value >= 100 else 1
    return f"{estimate.value:.{digits}f} ±{(estimate.hi - estimate.lo) / 2:.{digits}f}"


def _binomial_deviance(hits: int, n: int, rate: float) -> float:
    def term(count: int, expected: float) -> float:
        return 0.0 if count == 0 else 2 * count * float(np.log(count / expected))

    return term(hits, n * rate) + term(n - hits, n * (1 - rate))
