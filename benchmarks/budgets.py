"""Success against the budget: the embedded planner with its context pruned in the model, or cut as text.

    python benchmarks/budgets.py babyai-v1 --agents 4 --budgets 1024 512 --episodes 20
    python benchmarks/budgets.py lift-v1 --methods model:erecap model:recency --budgets 512

Two families that are never mixed: `model:` reads everything and prunes in its layers; `text:` cuts the text
first. Answers take no world time, so that nothing but the plans decides. All methods play the same episodes;
differences to the full context are paired over them. Runs are kept under --runs and resumed.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

from rich.console import Console

from brace.bench.runner import prepare_run
from brace.cli.live import run_with_progress
from brace.ledger.differences import paired_difference
from brace.ledger.intervals import SHARE, wilson
from brace.ledger.reader import load_run
from brace.loop.config import RunConfig, load_config

SEED = 910_001
FULL = "full"
ANEW = {"evict": False}
"""Each call reads and prunes the whole prompt, as in the paper; `-evict` reads on and drops the least."""
METHODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "model:erecap": ({"name": "in-model"}, ANEW),
    "model:erecap-segment": ({"name": "in-model"}, ANEW | {"granularity": "segment"}),
    "model:recency": ({"name": "in-model"}, ANEW | {"scorer": "recency"}),
    "model:random": ({"name": "in-model"}, ANEW | {"scorer": "random"}),
    "model:head-tail": ({"name": "in-model"}, ANEW | {"scorer": "head-tail"}),
    "model:attention": ({"name": "in-model"}, ANEW | {"scorer": "attention"}),
    "model:erecap-evict": ({"name": "in-model"}, {}),
    "model:recency-evict": ({"name": "in-model"}, {"scorer": "recency"}),
    "model:random-evict": ({"name": "in-model"}, {"scorer": "random"}),
    "text:erecap": ({"name": "erecap", "options": {"model": "embedded"}}, {}),
    "text:recency": ({"name": "recency"}, {}),
    "text:random": ({"name": "random"}, {}),
    "text:structured": ({"name": "structured"}, {}),
}
"""The compressor and the planner's options."""


def configured(world: str, agents: int | None, method: str, budget: int | None, episodes: int) -> RunConfig:
    """One run."""
    compress, options = ({"name": "none"}, {}) if method == FULL else METHODS[method]
    settings = {
        "name": f"{world} {method} {budget or ''}".strip(),
        "world": {
            "name": world,
            "options": {"disturbance": "normal"} | ({} if agents is None else {"agents": agents}),
        },
        "planner": {"name": "embedded", "options": options},
        "episodes": episodes,
        "seed": SEED,
        # The budget is the same for all, also in trouble.
        "controller": {"cooldown": 2, "divergence_limit": 0.5, "relax_budget": 1},
        "modes": {"only": {"compress": compress, "tokens": budget}},
        "budget": {"mode": "only"},
        "loop": {
            "clock": "modelled",
            "model": {"fixed_ms": 0, "per_token_ms": 0},
            "while_thinking": "hold",
            "allow_floor_overrun": True,
        },
    }
    return load_config(settings)


def measure(folder: Path, config: RunConfig, jobs: int) -> tuple[dict[str, Any], dict[int, bool]]:
    """Run what is missing; the figures, and each episode's success."""
    tasks = prepare_run(config, folder, resume=True)
    run_with_progress(tasks, {folder: config.name}, jobs=jobs, console=Console(stderr=True))
    run = load_run(folder)
    won = dict(run.episodes.select("seed", "success").iter_rows())
    low, high = wilson(sum(won.values()), len(won))
    calls = run.calls
    row = {
        "n": len(won),
        "success": round(100 * sum(won.values()) / len(won), 1),
        "low": round(100 * low, 1),
        "high": round(100 * high, 1),
        "calls": round(len(calls) / len(won), 1),
        "bound": round(float((calls["tokens_in"] > calls["tokens_after"]).mean()), 2),  # type: ignore[arg-type]
        "not_ok": int((calls["status"] != "ok").sum()),
        "overrun": int((calls["floor_overrun"] > 0).sum()),
    }
    for column in ("tokens_in", "tokens_after", "kept_mean", "tokens_read"):
        row[column] = round(float(calls[column].mean()))  # type: ignore[arg-type]
    return row, won


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("worlds", nargs="+")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--budgets", nargs="+", type=int, default=[1024, 512])
    parser.add_argument("--agents", type=int, default=None)
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2, help="set OMP_NUM_THREADS=1 beside it")
    parser.add_argument("--runs", type=Path, default=Path("runs/budgets"))
    parser.add_argument("--out", type=Path, default=None, help="a CSV file to write")
    given = parser.parse_args()
    rows = []
    for world in given.worlds:
        where = given.runs / (world if given.agents is None else f"{world}-{given.agents}")
        config = configured(world, given.agents, FULL, None, given.episodes)
        row, full = measure(where / FULL, config, given.jobs)
        rows.append({"world": world, "agents": given.agents, "method": FULL, "budget": None, **row})
        print(rows[-1], flush=True)
        for budget in given.budgets:
            for method in given.methods:
                config = configured(world, given.agents, method, budget, given.episodes)
                row, won = measure(where / f"{method.replace(':', '-')}-{budget}", config, given.jobs)
                apart = paired_difference(won, full, SHARE)
                points = (apart.value, apart.lo, apart.hi)
                mean, low, high = (None if x is None else round(100 * x, 1) for x in points)
                what = {"world": world, "agents": given.agents, "method": method, "budget": budget}
                rows.append({**what, **row, "to_full": mean, "to_full_low": low, "to_full_high": high})
                print(rows[-1], flush=True)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        with given.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
