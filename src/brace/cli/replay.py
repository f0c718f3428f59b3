"""`brace replay`: decide a logged run again and compare."""

from __future__ import annotations

import typer
from rich.console import Console

from brace.cli.options import RunDirectory
from brace.loop.replay import Replay, redecide

_SHOWN = 10


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


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(replay)
