"""`brace bench`: a whole comparison of the paper, its table and its page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as RichTable

from brace.bench.episodes import Task
from brace.bench.filming import film_run
from brace.bench.runner import prepare_run
from brace.bench.suite import Form, Suite, builtin_suites, load_suite
from brace.bench.suite_table import finished_runs, missing, suite_tables
from brace.cli.live import run_with_progress
from brace.cli.options import Episodes, Jobs, Ray, Resume, Settings, Timeout, overrides
from brace.cli.printing import Format, print_tables
from brace.ledger.lock import lock_runs
from brace.ledger.reader import load_run
from brace.report.suite_page import SuiteView, write_suite_page
from brace.report.timeline import eventful

LIST = "list"
PAGE = "report.html"
Name = Annotated[
    str, typer.Argument(metavar="SUITE", help="A suite that comes with brace, a YAML file, or `list`.")
]


def bench(
    name: Name,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The directory to write to [default: runs/SUITE].")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Its short form: a few minutes.")] = False,
    smoke: Annotated[bool, typer.Option("--smoke", help="Its shortest form: does it run at all?")] = False,
    only_report: Annotated[
        bool, typer.Option("--only-report", help="Run nothing: the table and page of what is there.")
    ] = False,
    settings: Settings = [],  # noqa: B006 - typer copies it
    episodes: Episodes = None,
    jobs: Jobs = None,
    timeout: Timeout = None,
    ray: Ray = None,
    resume: Resume = False,
    form: Annotated[Format, typer.Option("--format", help="How the table is printed.")] = Format.terminal,
) -> None:
    """Run a comparison of the paper on real worlds and print its table, the paper's figures beside ours.

    [dim]brace bench list[/]
    [dim]brace bench snapshot --quick[/]
    [dim]brace bench variants --out runs/variants --resume[/]
    [dim]brace bench snapshot --only-report --format latex[/]
    """
    console = Console()
    if name == LIST:
        _list(console)
        return
    which: Form = "smoke" if smoke else "quick" if quick else "full"
    suite = load_suite(name, which, overrides(settings, episodes))
    folder = out or Path("runs") / (suite.name if which == "full" else f"{suite.name}-{which}")
    if not only_report:
        run_suite(suite, folder, jobs=jobs, timeout_s=timeout, ray=ray, resume=resume, console=console)
    show(suite, folder, form)


def run_suite(
    suite: Suite,
    folder: Path,
    *,
    console: Console,
    jobs: int | None = None,
    timeout_s: float | None = None,
    ray: str | None = None,
    resume: bool = False,
) -> None:
    """Run what is missing of it."""
    labels = {folder / variant.slug: variant.label for variant in suite.variants}
    tasks: list[Task] = []
    with lock_runs(labels):
        for variant in suite.variants:
            tasks += prepare_run(variant.config, folder / variant.slug, resume=resume)
        run_with_progress(tasks, labels, jobs=jobs, timeout_s=timeout_s, ray=ray, console=console)
    if suite.form != "smoke":
        _film(suite, folder, console)


def _film(suite: Suite, folder: Path, console: Console) -> None:
    """An episode of each run, for its page."""
    for variant in suite.variants:
        directory = folder / variant.slug
        episodes = eventful(load_run(directory), 1)
        if episodes and (why_not := film_run(directory, episodes[0])):
            console.print(f"no frames of {variant.label}: {why_not}", highlight=False, markup=False)


def show(suite: Suite, folder: Path, form: Format = Format.terminal) -> None:
    """Print its tables, and write its page and its tables as files."""
    runs = finished_runs(suite, folder)
    tables = suite_tables(suite, runs)
    print_tables(tables, form, tables[0])
    labels = {variant.slug: variant for variant in suite.variants if variant.slug in runs}
    view = SuiteView(
        title=suite.title,
        about=suite.about,
        runs={variant.label: runs[slug] for slug, variant in labels.items()},
        labels={variant.label: variant.labels for variant in labels.values()},
        tables=tuple(tables),
        command=f"brace bench {suite.name}" + ("" if suite.form == "full" else f" --{suite.form}"),
        partial=missing(suite, runs),
        folders={variant.label: folder / slug for slug, variant in labels.items()},
    )
    page = write_suite_page(view, folder / PAGE)
    (folder / "table.csv").write_text(tables[0].csv(), encoding="utf-8")
    (folder / "table.md").write_text("\n".join(table.markdown() for table in tables), encoding="utf-8")
    # Where the table goes to a file, the file holds the table only.
    Console(stderr=form is not Format.terminal).print(f"page: {page}", highlight=False)


def _list(console: Console) -> None:
    shown = RichTable("suite", "what is compared", "runs", "episodes", "quick", box=None)
    for name in builtin_suites():
        full, quick = load_suite(name), load_suite(name, "quick")
        counts = [sum(variant.config.episodes for variant in one.variants) for one in (full, quick)]
        shown.add_row(name, full.title, str(len(full.variants)), *map(str, counts))
    console.print(shown)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(bench)
