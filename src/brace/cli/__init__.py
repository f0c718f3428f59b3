"""The `brace` command. Each subcommand is a file that only calls the rooms of the house."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from brace.cli import audit, bench, compare, demo, erecap, export, planner, replay, report, run, sweep, worlds
from brace.errors import BraceError

app = typer.Typer(
    help="BRACE: when to replan, how many tokens, by when. Every command has examples in its --help.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for module in (run, sweep, bench, report, compare, audit, replay, export, worlds, planner, erecap, demo):
    module.add_to(app)


def main() -> None:
    """Run the command; errors raised on purpose are printed without a traceback."""
    try:
        app()
    except BraceError as error:
        Console(stderr=True, highlight=False).print(f"[bold red]error:[/] {error}", soft_wrap=True)
        sys.exit(2)
