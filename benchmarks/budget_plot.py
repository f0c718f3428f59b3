"""The plot of what budgets.py measured: success against the budget, by world and family, with intervals.

python benchmarks/budget_plot.py results/budgets/success.csv docs/img/erecap_success.png
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

FAMILIES = {"model": "pruned in the model", "text": "cut as text"}
SELECTORS = {
    "erecap": ("E-RECAP", "#1b7f5c", "o"),
    "erecap-segment": ("E-RECAP, whole lines", "#7fc8a9", "s"),
    "erecap-evict": ("E-RECAP, evicting", "#0b3d2c", "D"),
    "attention": ("attention", "#4c78a8", "^"),
    "head-tail": ("head + tail", "#b279a2", "v"),
    "recency": ("recency", "#d98b3f", "<"),
    "random": ("random", "#999999", "x"),
    "structured": ("structured", "#c44e52", "P"),
}
_DODGE = 0.1
Row = dict[str, str]


def draw(axes: Axes, rows: list[Row], full: Row, family: str) -> None:
    """One world's selectors of one family, beside its whole context."""
    axes.axhspan(float(full["low"]), float(full["high"]), color="#555555", alpha=0.13, linewidth=0)
    axes.axhline(float(full["success"]), color="#555555", linewidth=1.2, ls="--", label="whole context")
    mine = [row for row in rows if row["method"].startswith(f"{family}:")]
    budgets = sorted({int(row["budget"]) for row in rows})
    for place, (selector, (label, colour, marker)) in enumerate(SELECTORS.items()):
        found = [row for row in mine if row["method"] == f"{family}:{selector}"]
        found.sort(key=lambda row: int(row["budget"]))
        at = [budgets.index(int(row["budget"])) + (place - len(SELECTORS) / 2) * _DODGE for row in found]
        heights = [float(row["success"]) for row in found]
        below = [height - float(row["low"]) for height, row in zip(heights, found, strict=True)]
        above = [float(row["high"]) - height for height, row in zip(heights, found, strict=True)]
        if found:
            axes.errorbar(
                at, heights, [below, above], color=colour, marker=marker, markersize=5.5, linewidth=1,
                elinewidth=0.9, capsize=2, label=label,
            )  # fmt: skip
    axes.set_xticks(range(len(budgets)), [f"{budget:,}" for budget in budgets])
    axes.set_xlim(-0.6, len(budgets) - 0.4)
    axes.set_ylim(-3, 104)
    axes.grid(axis="y", color="#eeeeee")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("picture", type=Path)
    given = parser.parse_args()
    worlds: dict[tuple[str, str], list[Row]] = {}
    with given.table.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            worlds.setdefault((row["world"], row["agents"]), []).append(row)
    size = (2.6 * len(worlds) + 1, 6.4)
    figure, grid = plt.subplots(len(FAMILIES), len(worlds), figsize=size, sharey=True, squeeze=False)
    for column, ((world, agents), rows) in enumerate(worlds.items()):
        full = next(row for row in rows if row["method"] == "full")
        pruned = [row for row in rows if row["method"] != "full"]
        for line, (family, words) in enumerate(FAMILIES.items()):
            draw(grid[line][column], pruned, full, family)
            if column == 0:
                grid[line][0].set_ylabel(f"{words}\nsuccess, %")
        team = f", K = {agents}" if agents else ""
        counts = sorted({int(row["n"]) for row in rows})
        n = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        grid[0][column].set_title(f"{world}{team}\nn = {n}", fontsize=10)
        grid[-1][column].set_xlabel("budget, tokens")
    entries = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.tight_layout(rect=(0, 0, 1, 0.91))
    figure.legend(entries.values(), entries.keys(), loc="upper center", ncol=5, frameon=False)
    figure.savefig(given.picture, dpi=100)


if __name__ == "__main__":
    main()
