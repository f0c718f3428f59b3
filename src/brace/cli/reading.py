"""The commands that read finished runs: `report`, `compare`, `audit`, `replay` and `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from brace.cli.options import AsFormat, Format, RunDirectory, print_tables
from brace.ledger.audits import anti_churn
from brace.ledger.reader import load_run, to_parquet
from brace.loop.config import load_config
from brace.loop.replay import Replay, redecide
from brace.report.compare import changes_table, compare_table
from brace.report.page import write_page
from brace.report.tables import phase_table, summary_table, suppressed_table, worst_calls_table

_SHOWN = 10
"""Differences that a replay prints."""


def report(
    directories: Annotated[list[Path], typer.Argument(metavar="RUN...", help="One or more run directories.")],
    html: Annotated[
        Path | None, typer.Option("--html", help="Where to write the page \\[default: RUN/report.html].")
    ] = None,
) -> None:
    """Print the figures of one or more runs side by side and write a self-contained page.

    [dim]brace report runs/a[/]
    [dim]brace report runs/a runs/b --html comparison.html[/]
    """
    loaded = [(directory, load_run(directory)) for directory in directories]
    names = [run.manifest.name for _, run in loaded]
    # Where names repeat, the folders tell the runs apart.
    runs = {
        run.manifest.name if names.count(run.manifest.name) == 1 else str(directory): run
        for directory, run in loaded
    }
    console = Console()
    console.print(summary_table(runs))
    target = html or directories[0] / "report.html"
    command = f"brace report {' '.join(map(str, directories))}"
    write_page(runs, target, title=", ".join(runs), command=command)
    console.print(f"page: {target}", highlight=False)


def compare(
    a: Annotated[Path, typer.Argument(metavar="RUN_A", help="The run directory to compare with.")],
    b: Annotated[Path, typer.Argument(metavar="RUN_B", help="The run directory that may differ.")],
    form: AsFormat = Format.terminal,
) -> None:
    """Tell what changed from RUN_A to RUN_B, and which differences are more than noise.

    Episodes of the same seed are paired; the intervals are 95 %.

    [dim]brace compare runs/a runs/b[/]
    [dim]brace compare runs/a runs/b --format latex > comparison.tex[/]
    """
    before, after = load_run(a), load_run(b)
    tables = (changes_table(before, after), compare_table(before, after))
    print_tables(tables, form, tables[-1])


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
    # Other rules promise no distance between calls.
    if config.rules.name == "brace":
        knobs = config.controller
        breaches = anti_churn(run, knobs.cooldown, knobs.commit)
        for breach in breaches:
            console.print(f"[red]breach[/] {breach}")
        bounds = f"calls ≥ {knobs.cooldown} steps apart, plan changes ≥ {knobs.commit}, overrides excepted"
        console.print(f"anti-churn bounds ({bounds}): {'BROKEN' if breaches else 'kept'}")
        if breaches:
            raise typer.Exit(1)


def replay(directory: RunDirectory) -> None:
    """Feed the logged signals to a fresh controller; exit code 1 if a decision comes out otherwise.

    [dim]brace replay runs/a[/]
    """
    console = Console(highlight=False)
    tally = Replay()
    for number, difference in enumerate(redecide(directory, tally)):
        if number < _SHOWN:
            console.print(
                f"episode {difference.episode}, step {difference.t}: {difference.field} was "
                f"{difference.logged!r}, is now {difference.now!r}"
            )
    same = tally.steps - tally.differing
    console.print(f"{same} of {tally.steps} decisions are the same")
    if tally.differing:
        raise typer.Exit(1)


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
