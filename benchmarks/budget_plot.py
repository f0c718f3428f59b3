"""The plot of what budgets.py measured: success by world and selector, with intervals.

python benchmarks/budget_plot.py docs/results/erecap_success.csv docs/img/erecap_success.png --budget 512
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

SHOWN = {
    "full": ("whole context", "#555555"),
    "model:erecap": ("E-RECAP", "#1b7f5c"),
    "model:attention": ("attention", "#4c78a8"),
    "model:recency": ("recency", "#d98b3f"),
}
_WIDTH = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--budget", type=int, default=512)
    given = parser.parse_args()
    with given.table.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["budget"] in ("", str(given.budget))]
    worlds = list(dict.fromkeys(row["world"] for row in rows))
    figure, axes = plt.subplots(figsize=(10.5, 4))
    for place, (method, (label, colour)) in enumerate(SHOWN.items()):
        found = [row for row in rows if row["method"] == method]
        at = [worlds.index(row["world"]) + (place - 1.5) * _WIDTH for row in found]
        heights = [float(row["success"]) for row in found]
        below = [height - float(row["low"]) for height, row in zip(heights, found, strict=True)]
        above = [float(row["high"]) - height for height, row in zip(heights, found, strict=True)]
        axes.bar(at, heights, 0.9 * _WIDTH, label=label, color=colour)
        axes.errorbar(at, heights, [below, above], fmt="none", ecolor="#222222", capsize=3, linewidth=1.2)
    count = {row["world"]: row["n"] for row in rows if row["method"] == "full"}
    team = {row["world"]: f", K = {row['agents']}" for row in rows if row["agents"]}
    axes.set_xticks(
        range(len(worlds)), [f"{world}{team.get(world, '')}\nn = {count[world]}" for world in worlds]
    )
    axes.set_ylabel("success, %")
    axes.set_ylim(0, 109)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="upper center", ncol=len(SHOWN), frameon=False)
    figure.savefig(given.picture, dpi=100, bbox_inches="tight")


if __name__ == "__main__":
    main()
