"""`brace sweep`: a grid of runs and its table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from brace.bench.episodes import Task
from brace.bench.grid import builtin_sweeps, load_sweep
from brace.bench.runner import prepare_run
from brace.bench.tables import print_table
from brace.cli.live import run_with_progress
from brace.cli.options import Episodes, Jobs, Ray, Resume, Settings, Timeout, overrides
from brace.errors import ConfigError
from brace.ledger.lock import lock_runs

Name = Annotated[
    str | None, typer.Argument(metavar="SWEEP", help="A sweep that comes with brace, or a YAML file.")
]


def sweep(
    name: Name = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The directory to write to [default: runs/SWEEP].")
    ] = None,
    settings: Settings = [],  # noqa: B006 - typer copies it
    episodes: Episodes = None,
    jobs: Jobs = None,
    timeout: Timeout = None,
    ray: Ray = None,
    resume: Resume = False,
) -> None:
    """Run every combination of a grid and print its table. Without a name: list the sweeps.

    [dim]brace sweep proxy --jobs 2[/]
    [dim]brace sweep proxy -n 10 --out runs/quick[/]
    [dim]brace sweep my_grid.yaml -s loop.while_thinking=continue --resume[/]
    """
    console = Console()
    if name is None:
        console.print("sweeps: " + ", ".join(builtin_sweeps()))
        return
    loaded = load_sweep(name, overrides(settings, episodes))
    folder = out or Path("runs") / loaded.name
    if not loaded.variants:
        raise ConfigError(f"sweep {name!r} has no runs")
    labels = {folder / variant.slug: variant.label for variant in loaded.variants}
    tasks: list[Task] = []
    with lock_runs(labels):
        for variant in loaded.variants:
            tasks += prepare_run(variant.config, folder / variant.slug, resume=resume)
        run_with_progress(tasks, labels, jobs=jobs, timeout_s=timeout, ray=ray, console=console)
    print_table(loaded, folder, console)
    console.print(f"written to {folder}; compare runs with: brace report {folder}/*", highlight=False)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(sweep)
