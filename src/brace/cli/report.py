"""`brace report`: tables in the terminal, and one page to send to a colleague."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from brace.ledger.reader import Run, load_run
from brace.report.page import write_page
from brace.report.tables import summary_table

Directories = Annotated[list[Path], typer.Argument(metavar="RUN...", help="One or more run directories.")]


def report(
    directories: Directories,
    html: Annotated[
        Path | None, typer.Option("--html", help="Where to write the page [default: RUN/report.html].")
    ] = None,
) -> None:
    """Print the figures of one or more runs side by side and write a self-contained page.

    [dim]brace report runs/a[/]
    [dim]brace report runs/a runs/b --html comparison.html[/]
    """
    runs = load_runs(directories)
    console = Console()
    console.print(summary_table(runs))
    target = html or directories[0] / "report.html"
    command = f"brace report {' '.join(map(str, directories))}"
    write_page(runs, target, title=", ".join(runs), command=command)
    console.print(f"page: {target}", highlight=False)


def load_runs(directories: list[Path]) -> dict[str, Run]:
    """The runs by a label that tells them apart: their name, or their folder where names repeat."""
    loaded = [(directory, load_run(directory)) for directory in directories]
    names = [run.manifest.name for _, run in loaded]
    return {
        run.manifest.name if names.count(run.manifest.name) == 1 else str(directory): run
        for directory, run in loaded
    }


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(report)
