"""`brace worlds`: what there is to act in, and whether a world keeps its contract."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from brace.bench.grid import parse_setting
from brace.cli.options import Imports
from brace.errors import BraceError
from brace.registry import worlds as registry
from brace.worlds.conformance import check_world

app = typer.Typer(
    help="The worlds: which there are, and whether one keeps its contract.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A world, e.g. babyai-v1.")]
Options = Annotated[
    list[str], typer.Option("--set", "-s", metavar="KEY=VALUE", help="An option of the world, e.g. agents=2.")
]
Steps = Annotated[
    int, typer.Option("--steps", min=5, help="How many steps of an episode each rule looks at.")
]


@app.command()
def check(name: Name, options: Options = [], steps: Steps = 40, imports: Imports = []) -> None:  # noqa: B006 - typer copies it
    """Run a world through the contract: determinism, time, refusal, growth of text, reset and more.

    [dim]brace worlds check drones-v1[/]
    [dim]brace worlds check my-world-v1 -s difficulty=hard --steps 200 --import my_world.py[/]
    """
    console = Console()
    settings = dict(parse_setting(text) for text in options)
    failures = 0
    for result in check_world(lambda: registry.create(name, settings), steps=steps):
        word = {True: "[green]ok[/]", False: "[bold red]FAILED[/]", None: "[dim]–[/]"}[result.passed]
        console.print(
            f"{word:<8} {result.rule}" + (f": {result.detail}" if result.detail else ""), highlight=False
        )
        failures += result.passed is False
    if failures:
        raise BraceError(f"world {name!r} breaks {failures} of its rules")
