"""`brace worlds`: what there is to act in, and whether a world keeps its contract."""

from __future__ import annotations

import importlib.util
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from brace.bench.grid import parse_setting
from brace.errors import BraceError
from brace.registry import worlds as registry
from brace.worlds import WorldInfo
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


@app.command("list")
def list_worlds() -> None:
    """All worlds: whether installed, whether a real simulator, and what each stands for in the paper.

    [dim]brace worlds list[/]
    """
    table = Table("world", "installed", "real", "what it is", "stands for", box=None, padding=(0, 1))
    for name in registry.names():
        info: WorldInfo = getattr(registry.get(name), "info", WorldInfo(""))
        here = all(importlib.util.find_spec(module) is not None for module in info.modules)
        installed = "yes" if here else f"no: pip install 'brace-replan\\[{info.extra}]'"
        table.add_row(name, installed, "yes" if info.real else "no", info.summary, info.stands_for)
    Console().print(table)


@app.command()
def check(name: Name, options: Options = [], steps: Steps = 40) -> None:  # noqa: B006 - typer copies it
    """Run a world through the contract: determinism, time, refusal, growth of text, reset and more.

    [dim]brace worlds check drones-v1[/]
    [dim]brace worlds check my-world-v1 -s difficulty=hard --steps 200[/]
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
