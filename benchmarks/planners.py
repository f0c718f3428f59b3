"""Planners side by side in real worlds: success, calls, and, on the wall clock, latency and its phases.

    python benchmarks/planners.py babyai-v1 drones-v1 --episodes 50
    python benchmarks/planners.py babyai-v1 --episodes 5 --clock wall --planners embedded smollm2

Seeds are none that the embedded planner was trained on. On the modelled clock answers take no world time, so
that nothing but the plans decides; on the wall clock thinking costs what it costs here, and nothing else
should run. `shuffled` and `empty` are the embedded planner with the words of its context in random order, or
with none of it: what it does without reading. Runs are kept under --runs and resumed.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from brace.bench.runner import prepare_run
from brace.cli.live import run_with_progress
from brace.ledger.intervals import wilson
from brace.ledger.reader import load_run
from brace.loop.config import RunConfig, load_config
from brace.planners import Prompt, Usage
from brace.planners.base import Limits
from brace.planners.local import EmbeddedPlanner
from brace.registry import planners

SEED = 900_001
PLANNERS: dict[str, dict[str, Any]] = {
    "reader": {"name": "reader"},
    "embedded": {"name": "embedded"},
    "shuffled": {"name": "embedded-shuffled"},
    "empty": {"name": "embedded-empty"},
    "smollm2": {"name": "transformers", "options": {"model": "smollm2", "max_new_tokens": 64}},
}
PHASES = ("queue", "prefill", "decode")


@planners.register("embedded-shuffled")
class ShuffledContext(EmbeddedPlanner):
    """Reads the words of its context in random order."""

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str | Usage]:
        first, last = prompt.lines[0].start, prompt.lines[-1].end
        words = prompt.text[first:last].split(" ")
        random.Random(len(words)).shuffle(words)
        text = prompt.text[:first] + " ".join(words) + prompt.text[last:]
        return super().stream(replace(prompt, text=text, lines=()), limits)


@planners.register("embedded-empty")
class EmptyContext(EmbeddedPlanner):
    """Reads nothing but the skills."""

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str | Usage]:
        text = prompt.text[: prompt.lines[0].start] + prompt.text[prompt.lines[-1].end :]
        return super().stream(replace(prompt, text=text, lines=()), limits)


def configured(world: str, disturbance: str, planner: str, clock: str, episodes: int) -> RunConfig:
    """One run."""
    modelled = {"clock": "modelled", "model": {"fixed_ms": 0, "per_token_ms": 0}, "while_thinking": "hold"}
    settings = {
        "name": f"{world}-{disturbance}-{planner}",
        "world": {"name": world, "options": {"disturbance": disturbance}},
        "planner": PLANNERS[planner],
        "episodes": episodes,
        "seed": SEED,
        "controller": {"cooldown": 2, "divergence_limit": 0.5},
        "modes": {"full": {}},
        "budget": {"mode": "full"},
        "loop": modelled if clock == "modelled" else {"clock": "wall", "while_thinking": "continue"},
    }
    return load_config(settings)


def measure(folder: Path, config: RunConfig) -> dict[str, Any]:
    """Run what is missing; the figures of all of it."""
    tasks = prepare_run(config, folder, resume=True)
    run_with_progress(tasks, {folder: config.name}, jobs=1, console=Console(stderr=True))
    run = load_run(folder)
    hits, n = int(run.episodes["success"].sum()), len(run.episodes)
    low, high = wilson(hits, n)
    calls = run.calls
    row = {
        "n": n,
        "success": round(100 * hits / n, 1),
        "low": round(100 * low, 1),
        "high": round(100 * high, 1),
        "calls": round(len(calls) / n, 1),
        "tokens": round(float(calls["tokens_after"].mean())),  # type: ignore[arg-type]
    }
    if config.loop.clock == "wall":
        p50, p95 = np.percentile(calls["latency_ms"], (50, 95))
        row |= {"latency_p50": round(p50), "latency_p95": round(p95)}
        for phase in PHASES:
            spent = [
                sum(part["ms"] for part in parts if part["name"] == f"replan.{phase}")
                for parts in calls["phases"].to_list()
            ]
            row[f"{phase}_p50"] = round(float(np.median(spent)))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("worlds", nargs="+")
    parser.add_argument("--planners", nargs="+", choices=PLANNERS, default=["reader", "embedded"])
    parser.add_argument("--disturbances", nargs="+", default=["normal"])
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--clock", choices=("modelled", "wall"), default="modelled")
    parser.add_argument("--runs", type=Path, default=Path("runs/planners"))
    parser.add_argument("--out", type=Path, default=None, help="a CSV file to write")
    given = parser.parse_args()
    rows = []
    for world in given.worlds:
        for disturbance in given.disturbances:
            for planner in given.planners:
                folder = given.runs / given.clock / world / f"{disturbance}-{planner}"
                wanted = configured(world, disturbance, planner, given.clock, given.episodes)
                what = {"world": world, "disturbance": disturbance, "planner": planner}
                rows.append({**what, **measure(folder, wanted)})
                print(rows[-1], flush=True)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        with given.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
