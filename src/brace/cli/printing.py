"""Tables in the form that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import typer
from rich.console import Console

from brace.report.rows import Table


class Format(StrEnum):
    """How tables are printed."""

    terminal = "terminal"
    markdown = "markdown"
    latex = "latex"
    csv = "csv"


def print_tables(tables: Sequence[Table], form: Format, figures: Table) -> None:
    """All of them; as CSV, which holds one table, the `figures` only."""
    if form is Format.terminal:
        console = Console()
        for table in tables:
            console.print(table)
    elif form is Format.csv:
        typer.echo(figures.csv(), nl=False)
    else:
        texts = [table.markdown() if form is Format.markdown else table.latex() for table in tables]
        typer.echo("\n".join(texts), nl=False)
