"""`brace audit`: why was this call late, and what became of suppressed triggers."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from brace.cli.options import RunDirectory
from brace.ledger.audits import anti_churn
from brace.ledger.reader import load_run
from brace.loop.config import load_config
from brace.report.tables import phase_table, suppressed_table, worst_calls_table


def audit(
    directory: RunDirectory,
    worst: Annotated[int, typer.Option(min=1, help="How many of the slowest calls to show.")] = 5,
    horizon: Annotated[
        int, typer.Option(min=1, help="H: steps in which a suppressed trigger is followed.")
    ] = 20,
) -> None:
    """Show the phases of the worst calls, the fate of suppressed triggers, and check the anti-churn bounds.

    [dim]brace audit runs/a[/]
    [dim]brace audit runs/a --worst 10 --horizon 40[/]
    """
    console = Console()
    run = load_run(directory)
    console.print(worst_calls_table(run, worst))
    console.print(phase_table(run))
    console.print(suppressed_table(run, horizon))
    config = load_config(run.manifest.config)
    if config.rules.name == "brace":
        knobs = config.controller
        breaches = anti_churn(run, knobs.cooldown, knobs.commit)
        for breach in breaches:
            console.print(f"[red]breach[/] {breach}")
        bounds = f"calls ≥ {knobs.cooldown} steps apart, plan changes ≥ {knobs.commit}, overrides excepted"
        console.print(f"anti-churn bounds ({bounds}): {'BROKEN' if breaches else 'kept'}")
        if breaches:
            raise typer.Exit(1)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(audit)
