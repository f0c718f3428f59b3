"""`brace compare`: what changed between two runs, and whether it is more than noise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from brace.cli.printing import Format, print_tables
from brace.ledger.reader import load_run
from brace.report.compare import changes_table, compare_table


def compare(
    a: Annotated[Path, typer.Argument(metavar="RUN_A", help="The run directory to compare with.")],
    b: Annotated[Path, typer.Argument(metavar="RUN_B", help="The run directory that may differ.")],
    shape: Annotated[
        Format, typer.Option("--format", help="How to print; csv holds the figures only.")
    ] = Format.terminal,
) -> None:
    """Tell what changed from RUN_A to RUN_B, and which differences are more than noise.

    Episodes of the same seed are paired; the intervals are 95 %.

    [dim]brace compare runs/a runs/b[/]
    [dim]brace compare runs/a runs/b --format latex > comparison.tex[/]
    """
    before, after = load_run(a), load_run(b)
    tables = (changes_table(before, after), compare_table(before, after))
    print_tables(tables, shape, tables[-1])


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(compare)
