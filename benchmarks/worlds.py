"""Every world's references, latency curves, growth of context and speed: tables, CSV and plots.

    python benchmarks/worlds.py babyai-v1 drones-v1 --episodes 50 --jobs 2

Runs are kept under --runs and resumed, so that an interrupted measurement goes on where it was.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.figure import Figure
from rich.console import Console

from brace.bench.suite import Suite, load_suite
from brace.cli.options import Running, run_all
from brace.context import ContextBuffer, WordTokenizer
from brace.ledger.intervals import wilson
from brace.ledger.reader import load_run
from brace.registry import worlds

TEAMS = (1, 4, 8)
"""Agents in the growth figure, for worlds that take a number of them."""


MARKS = ("0", "0.5", "1", "2", "4", "8")
"""Seconds of latency, as the suite labels them."""


def run_suite(suite: Suite, folder: Path, jobs: int) -> Iterator[tuple[dict[str, str], pl.DataFrame]]:
    """The episodes of every variant."""
    runs = {folder / variant.slug: (variant.label, variant.config) for variant in suite.variants}
    run_all(runs, Running(jobs=jobs, resume=True), Console(stderr=True))
    for variant in suite.variants:
        yield variant.labels, load_run(folder / variant.slug).episodes


def success_row(episodes: pl.DataFrame) -> dict[str, Any]:
    hits, n = int(episodes["success"].sum()), len(episodes)
    low, high = wilson(hits, n)
    figures = {
        name.removeprefix("figure."): round(float(episodes[name].mean()), 3)  # type: ignore[arg-type]
        for name in episodes.columns
        if name.startswith("figure.")
    }
    row = {
        "n": n,
        "success": round(100 * hits / n, 1),
        "low": round(100 * low, 1),
        "high": round(100 * high, 1),
    }
    return row | {"steps": round(float(episodes["steps"].mean()), 1)} | figures  # type: ignore[arg-type]


def growth(name: str, options: dict[str, Any]) -> tuple[list[int], float]:
    """Words of context after each step of an episode under the reader's plans, and steps a second."""
    world = worlds.create(name, options)
    buffer = ContextBuffer(WordTokenizer())
    world.reset(1)
    sizes, stepping = [], 0.0
    while len(sizes) < world.max_steps and not world.finished():
        begun = time.perf_counter()
        buffer.extend(world.observe())
        events = world.events()
        stepping += time.perf_counter() - begun
        if (
            world.rest().is_empty
            or events.failed
            or events.hazard
            or events.divergence
            or events.goal_changed
        ):
            world.apply(world.read("".join(line.text for line in buffer.lines())))
        begun = time.perf_counter()
        world.step(hold=False)
        stepping += time.perf_counter() - begun
        sizes.append(buffer.tokens)
    world.close()
    return sizes, len(sizes) / stepping


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = list(dict.fromkeys(key for row in rows for key in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        writer.writerows(rows)


def plot_latency(rows: list[dict[str, Any]], path: Path) -> None:
    names = list(dict.fromkeys(row["world"] for row in rows))
    figure = Figure(figsize=(3.1 * len(names), 3.2), layout="constrained")
    grid = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axes, name in zip(grid, names, strict=True):
        for way, colour, marker in (("hold", "#2e86c9", "o"), ("continue", "#d98e04", "s")):
            mine = [row for row in rows if row["world"] == name and row["while_thinking"] == way]
            place = [MARKS.index(row["seconds"]) for row in mine]
            low = [row["success"] - row["low"] for row in mine]
            high = [row["high"] - row["success"] for row in mine]
            axes.errorbar(
                place, [row["success"] for row in mine], yerr=[low, high], color=colour, marker=marker,
                capsize=3, label=way,
            )  # fmt: skip
        axes.set_xticks(range(len(MARKS)), MARKS)
        sizes = sorted({row["n"] for row in rows if row["world"] == name})
        axes.set_title(f"{name} (n = {'…'.join(map(str, {sizes[0]: 0, sizes[-1]: 0}))})", fontsize=10)
        axes.set_xlabel("planner latency, s of world time")
        axes.set_ylim(-3, 103)
        axes.grid(alpha=0.3)
    grid[0].set_ylabel("success, % [95 %]")
    grid[0].legend(title="while thinking", frameon=False)
    figure.savefig(path, dpi=110)


def plot_growth(rows: list[dict[str, Any]], path: Path) -> None:
    names = list(dict.fromkeys(row["world"] for row in rows))
    figure = Figure(figsize=(3.1 * len(names), 3.0), layout="constrained")
    grid = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, name in zip(grid, names, strict=True):
        for row in rows:
            if row["world"] == name:
                label = f"K = {row['agents']}" if row["agents"] else "two arms"
                axes.plot(row["sizes"], label=label)
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    grid[0].set_ylabel("context, words")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("worlds", nargs="+")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--latency-episodes", type=int, default=None, help="if other than --episodes")
    parser.add_argument("--disturbances", nargs="+", default=["none", "normal", "strong"])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("runs/worlds"))
    parser.add_argument("--out", type=Path, default=Path("results/worlds"), help="where the tables go")
    parser.add_argument("--images", type=Path, default=Path("docs/img"))
    given = parser.parse_args()
    references, latencies, sizes = [], [], []
    for name in given.worlds:
        suite = load_suite("references", "full", {"world.name": name, "episodes": given.episodes})
        chosen = tuple(v for v in suite.variants if v.labels["disturbance"] in given.disturbances)
        suite = dataclasses.replace(suite, variants=chosen)
        for labels, episodes in run_suite(suite, given.runs / name / "references", given.jobs):
            references.append({"world": name, **labels, **success_row(episodes)})
            print(references[-1])
        slow = given.latency_episodes or given.episodes
        suite = load_suite("latency", "full", {"world.name": name, "episodes": slow})
        for labels, episodes in run_suite(suite, given.runs / name / "latency", given.jobs):
            latencies.append({"world": name, **labels, **success_row(episodes)})
            print(latencies[-1])
        teams = TEAMS if "agents" in worlds.get(name).__init__.__annotations__ else (None,)  # type: ignore[misc]
        for team in teams:
            grown, speed = growth(name, {"agents": team} if team else {})
            sizes.append({"world": name, "agents": team, "sizes": grown, "steps_per_s": speed})
            marks = {t: grown[t] for t in (0, 50, 100, 200, 400) if t < len(grown)}
            print(
                f"{name}, agents {team}: words by step {marks}, at the end {grown[-1]}; {speed:.0f} steps/s"
            )
    given.images.mkdir(parents=True, exist_ok=True)
    write_csv(given.out / "references.csv", references)
    write_csv(given.out / "latency.csv", latencies)
    rows = [{**row, "sizes": " ".join(map(str, row["sizes"][::20]))} for row in sizes]
    write_csv(given.out / "growth.csv", rows)
    plot_latency(latencies, given.images / "worlds_latency.png")
    plot_growth(sizes, given.images / "worlds_growth.png")


if __name__ == "__main__":
    main()
