"""`brace export`: a ledger for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from brace.cli.options import RunDirectory
from brace.ledger.export import to_parquet
from brace.ledger.reader import load_run


def export(
    directory: RunDirectory,
    parquet: Annotated[Path, typer.Option("--parquet", help="The folder for the Parquet files.")],
) -> None:
    """Write steps.parquet, calls.parquet and episodes.parquet.

    [dim]brace export runs/a --parquet runs/a/parquet[/]
    """
    run = load_run(directory)
    to_parquet(run, parquet)
    console = Console(highlight=False)
    for note in run.notes:
        console.print(f"note: {note}")
    sizes = f"{len(run.steps)} steps, {len(run.calls)} calls and {len(run.episodes)} episodes"
    console.print(f"{sizes} written to {parquet}")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(export)
