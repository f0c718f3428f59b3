"""`brace run`: the episodes of one configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from brace.bench.grid import load_run_config
from brace.bench.runner import prepare_run
from brace.cli.live import run_with_progress
from brace.cli.options import Episodes, Jobs, Out, Resume, Settings, overrides

Config = Annotated[
    str, typer.Argument(metavar="CONFIG", help="A YAML file, or a configuration that comes with brace.")
]


def run(
    config: Config,
    out: Out = Path("runs/latest"),
    settings: Settings = [],  # noqa: B006 - typer copies it
    episodes: Episodes = None,
    jobs: Jobs = 1,
    resume: Resume = False,
) -> None:
    """Run one configuration and keep its ledger.

    [dim]brace run rehearsal --out runs/a[/]
    [dim]brace run my.yaml -s controller.cooldown=3 -s modes.pruned.tokens=256 -n 20[/]
    [dim]brace run rehearsal --out runs/a --resume[/]
    """
    console = Console()
    loaded = load_run_config(config, overrides(settings, episodes))
    tasks = prepare_run(loaded, out, resume=resume)
    if not tasks:
        console.print(f"all {loaded.episodes} episodes are finished already")
    run_with_progress(tasks, {out: loaded.name}, jobs=jobs, console=console)
    console.print(f"written to {out}; look at it with: brace report {out}", highlight=False)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(run)
