"""The `brace` command. Its subcommands only call the rooms of the house."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from brace import __version__
from brace.cli import bench, demo, erecap, planner, reading, run, worlds
from brace.cli.listing import add_lists
from brace.errors import BraceError

app = typer.Typer(
    help="BRACE: when to replan, how many tokens, by when. Every command has examples in its --help.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _no_command(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"brace {__version__}")
        raise typer.Exit


for command in (
    run.run, bench.bench, reading.report, reading.compare, reading.audit, reading.replay, reading.export,
    demo.demo,
):  # fmt: skip
    app.command()(command)
for group in (worlds, planner, erecap):
    app.add_typer(group.app, name=group.__name__.rpartition(".")[2])
add_lists(app)


def main() -> None:
    """Run the command; errors raised on purpose are printed without a traceback."""
    try:
        app()
    except BraceError as error:
        # Escaped: a message that names an extra in [brackets] would lose it as markup.
        said = f"[bold red]error:[/] {escape(str(error))}"
        Console(stderr=True, highlight=False).print(said, soft_wrap=True)
        sys.exit(2)
