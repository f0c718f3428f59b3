"""What several commands share: their options, how they run episodes, how they print tables."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console

from brace.bench.episodes import Task
from brace.bench.grid import parse_setting
from brace.bench.runner import prepare_run
from brace.cli.live import run_with_progress
from brace.ledger.lock import lock_runs
from brace.loop.config import RunConfig
from brace.registry import import_file
from brace.report.rows import Table

Out = Annotated[Path, typer.Option("--out", "-o", help="The directory to write to.")]
RunDirectory = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]


class Format(StrEnum):
    """How tables are printed."""

    terminal = "terminal"
    markdown = "markdown"
    latex = "latex"
    csv = "csv"


AsFormat = Annotated[Format, typer.Option("--format", help="How to print; csv holds the figures only.")]


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


def _import_now(files: list[str]) -> list[str]:
    for file in files:
        import_file(file)
    return files


Imports = Annotated[
    list[str],
    typer.Option(
        "--import",
        metavar="FILE",
        callback=_import_now,
        # Before the other options, which may name what the file registers.
        is_eager=True,
        help="A Python file that registers things of your own.",
    ),
]


@dataclass(frozen=True)
class Running:
    """How a command runs episodes: the options of all that do (see `runs_episodes`)."""

    settings: Annotated[
        list[str],
        typer.Option(
            "--set", "-s", metavar="KEY=VALUE", help="Override a setting, e.g. controller.cooldown=3."
        ),
    ] = field(default_factory=list)
    imports: Imports = field(default_factory=list)
    episodes: Annotated[
        int | None,
        typer.Option("--episodes", "-n", min=1, help="Episodes of each run, if not as configured."),
    ] = None
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", min=1,
            help="Episodes at a time, each on its own cores \\[default: 1; with --ray, what it holds].",
        ),
    ] = None  # fmt: skip
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", metavar="SECONDS",
            help="The longest an episode may take; then it is stopped and tried once more.",
        ),
    ] = None  # fmt: skip
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray", metavar="ADDRESS", help="Run on the Ray cluster at this address, e.g. 10.0.0.5:6379."
        ),
    ] = None
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was interrupted.")] = False

    @property
    def overrides(self) -> dict[str, Any]:
        """The settings given on the command line, by dotted key."""
        given = dict(parse_setting(text) for text in self.settings)
        if self.imports:
            given["imports"] = [str(Path(file).resolve()) for file in self.imports]
        return given if self.episodes is None else given | {"episodes": self.episodes}


def runs_episodes(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of `Running` instead of its parameter `how`, which is made of them."""
    own = inspect.signature(command).parameters.values()
    hints = get_type_hints(command, include_extras=True)
    shared = get_type_hints(Running, include_extras=True)

    @functools.wraps(command)
    def with_options(*values: Any, **given: Any) -> None:
        how = Running(**{one.name: given.pop(one.name) for one in fields(Running) if one.name in given})
        command(*values, how=how, **given)

    parameters = []
    for parameter in own:
        if parameter.name == "how":
            for one in fields(Running):
                default = [] if one.name in ("settings", "imports") else one.default
                kind = inspect.Parameter.KEYWORD_ONLY
                parameters.append(
                    inspect.Parameter(one.name, kind, default=default, annotation=shared[one.name])
                )
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
    # What typer reads; by default it would see the parameters of the wrapped command.
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return with_options


def run_all(
    runs: Mapping[Path, tuple[str, RunConfig]],
    how: Running,
    console: Console,
    *,
    first: Callable[[list[Task]], list[Task]] = list,
) -> None:
    """Run what is missing of labelled configurations, a directory each, held until all is done.

    `first` gets the tasks before they are run, and returns those that are left.
    """
    labels = {directory: label for directory, (label, _) in runs.items()}
    tasks: list[Task] = []
    with lock_runs(runs):
        for directory, (_, config) in runs.items():
            tasks += prepare_run(config, directory, resume=how.resume)
        run_with_progress(
            first(tasks), labels, jobs=how.jobs, timeout_s=how.timeout, ray=how.ray, console=console
        )
