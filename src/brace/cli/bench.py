"""`brace bench`: a whole comparison of the paper, its table and its page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from brace.bench.pages import PAGE, film_suite, write_results
from brace.bench.suite import Form, load_suite, suite_files
from brace.cli.options import AsFormat, Format, Running, print_tables, run_all, runs_episodes

LIST = "list"


@runs_episodes
def bench(
    name: Annotated[
        str, typer.Argument(metavar="SUITE", help="A suite that comes with brace, a YAML file, or `list`.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The directory to write to \\[default: runs/SUITE].")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Its short form: a few minutes.")] = False,
    smoke: Annotated[bool, typer.Option("--smoke", help="Its shortest form: does it run at all?")] = False,
    only_report: Annotated[
        bool, typer.Option("--only-report", help="Run nothing: the table and page of what is there.")
    ] = False,
    form: AsFormat = Format.terminal,
    *,
    how: Running,
) -> None:
    """Run a comparison and print its table, the paper's figures beside ours.

    [dim]brace bench list[/]
    [dim]brace bench snapshot --quick[/]
    [dim]brace bench proxy --jobs 2[/]
    [dim]brace bench variants --out runs/variants --resume[/]
    [dim]brace bench references -s world.name=drones-v1 -n 20[/]
    [dim]brace bench snapshot --only-report --format latex[/]
    """
    console = Console()
    if name == LIST:
        shown = Table("suite", "what is compared", "runs", "episodes", "quick", box=None)
        for listed in suite_files():
            full, short = load_suite(listed), load_suite(listed, "quick")
            counts = [sum(variant.config.episodes for variant in one.variants) for one in (full, short)]
            shown.add_row(listed, full.title, str(len(full.variants)), *map(str, counts))
        console.print(shown)
        return
    which: Form = "smoke" if smoke else "quick" if quick else "full"
    suite = load_suite(name, which, how.overrides)
    folder = out or Path("runs") / (suite.name if which == "full" else f"{suite.name}-{which}")
    if not only_report:
        run_all({folder / one.slug: (one.label, one.config) for one in suite.variants}, how, console)
        if which != "smoke":
            for lacking in film_suite(suite, folder):
                console.print(lacking, highlight=False, markup=False)
    tables = write_results(suite, folder)
    print_tables(tables, form, tables[0])
    # Where the table goes to a file, the file holds the table only.
    Console(stderr=form is not Format.terminal).print(f"page: {folder / PAGE}", highlight=False)
