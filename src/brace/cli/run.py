"""`brace run`: the episodes of one configuration, filmed if you like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from brace.bench.episodes import Task
from brace.bench.grid import load_run_config
from brace.cli.live import run_with_progress
from brace.cli.options import Out, Running, run_all, runs_episodes
from brace.ledger.reader import load_run
from brace.report.video import Film, write_video
from brace.worlds import World


@runs_episodes
def run(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            help="A YAML file, a configuration that comes with brace, or a world (then its reference run).",
        ),
    ],
    out: Out = Path("runs/latest"),
    video: Annotated[
        Path | None,
        typer.Option(
            "--video", help="Film the first episode, which runs here: an mp4 with its timeline drawn in."
        ),
    ] = None,
    *,
    how: Running,
) -> None:
    """Run one configuration and keep its ledger.

    [dim]brace run rehearsal --out runs/a[/]
    [dim]brace run my.yaml -s controller.cooldown=3 -s modes.pruned.tokens=256 -n 20[/]
    [dim]brace run drones-v1 -s world.options.agents=6 --video drones.mp4 --out runs/d[/]
    [dim]brace run rehearsal --out runs/a --resume[/]
    [dim]brace run drones-v1 -n 100 --jobs 4 --timeout 300 --out runs/e[/]
    """
    console = Console()
    loaded = load_run_config(config, how.overrides)

    def film(tasks: list[Task]) -> list[Task]:
        if not tasks:
            console.print(f"all {loaded.episodes} episodes are finished already")
        elif video is not None:
            # By itself: only an episode in this process can be watched.
            _film(tasks[0], loaded.name, video, console)
            return tasks[1:]
        return tasks

    run_all({out: (loaded.name, loaded)}, how, console, first=film)
    console.print(f"written to {out}; look at it with: brace report {out}", highlight=False)


def _film(task: Task, label: str, video: Path, console: Console) -> None:
    times: list[float] = []
    with Film() as film:

        def watch(world: World, step: int) -> None:
            times.append(world.dt)
            film.add(step, world.frame())

        run_with_progress([task], {task.directory: label}, jobs=1, console=console, watch=watch)
        write_video(video, film, load_run(task.directory), task.episode, times[0])
    console.print(f"film of episode {task.episode} in {video}", highlight=False)
