"""`brace run`: the episodes of one configuration, filmed if you like."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from brace.bench.episodes import Task
from brace.bench.grid import load_run_config
from brace.bench.runner import prepare_run
from brace.cli.live import run_with_progress
from brace.cli.options import Episodes, Jobs, Out, Ray, Resume, Settings, Timeout, overrides
from brace.ledger.lock import lock_runs
from brace.ledger.reader import load_run
from brace.report.video import Film, write_video
from brace.worlds import World

Config = Annotated[
    str,
    typer.Argument(
        metavar="CONFIG",
        help="A YAML file, a configuration that comes with brace, or a world (then its reference run).",
    ),
]
Video = Annotated[
    Path | None,
    typer.Option(
        "--video", help="Film the first episode, which runs here: an mp4 with its timeline drawn in."
    ),
]


def run(
    config: Config,
    out: Out = Path("runs/latest"),
    settings: Settings = [],  # noqa: B006 - typer copies it
    episodes: Episodes = None,
    jobs: Jobs = None,
    timeout: Timeout = None,
    ray: Ray = None,
    resume: Resume = False,
    video: Video = None,
) -> None:
    """Run one configuration and keep its ledger.

    [dim]brace run rehearsal --out runs/a[/]
    [dim]brace run my.yaml -s controller.cooldown=3 -s modes.pruned.tokens=256 -n 20[/]
    [dim]brace run drones-v1 -s world.options.agents=6 --video drones.mp4 --out runs/d[/]
    [dim]brace run rehearsal --out runs/a --resume[/]
    [dim]brace run drones-v1 -n 100 --jobs 4 --timeout 300 --out runs/e[/]
    """
    console = Console()
    loaded = load_run_config(config, overrides(settings, episodes))
    labels = {out: loaded.name}
    with lock_runs([out]):
        tasks = prepare_run(loaded, out, resume=resume)
        if not tasks:
            console.print(f"all {loaded.episodes} episodes are finished already")
        if video is not None and tasks:
            _film(tasks[:1], labels, video, console)
            tasks = tasks[1:]
        run_with_progress(tasks, labels, jobs=jobs, timeout_s=timeout, ray=ray, console=console)
    console.print(f"written to {out}; look at it with: brace report {out}", highlight=False)


def _film(tasks: Sequence[Task], labels: dict[Path, str], video: Path, console: Console) -> None:
    times: list[float] = []
    with Film() as film:

        def watch(world: World, step: int) -> None:
            times.append(world.dt)
            film.add(step, world.frame())

        run_with_progress(tasks, labels, jobs=1, console=console, watch=watch)
        write_video(video, film, load_run(tasks[0].directory), tasks[0].episode, times[0])
    console.print(f"film of episode {tasks[0].episode} in {video}", highlight=False)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(run)
