"""`brace planner`: make the embedded planner's training data, and train it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from brace.errors import BraceError
from brace.registry import worlds

app = typer.Typer(help="The embedded planner: its training data and its training.", no_args_is_help=True)

Worlds = Annotated[list[str], typer.Argument(metavar="WORLD...", help="Worlds to record, e.g. babyai-v1.")]
Logs = Annotated[Path, typer.Option("--logs", help="The folder of recorded logs.")]
First = Annotated[int, typer.Option("--seed", help="The first episode's seed; the others follow it.")]


@app.command()
def data(
    names: Worlds,
    logs: Logs = Path("runs/planner/logs"),
    episodes: Annotated[int, typer.Option("--episodes", "-n", min=1, help="Episodes of each world.")] = 100,
    seed: First = 100_000,
) -> None:
    """Record episodes of worlds, in all their difficulties and disturbances, as text to learn from.

    [dim]brace planner data babyai-v1 drones-v1 -n 400[/]
    [dim]brace planner data lift-v1 -n 50 --seed 200000[/]
    """
    # Not for every command.
    from brace.training.logs import record_log, varied_options, write_logs  # noqa: PLC0415

    for name in names:
        # Anew for each world: what is drawn for one does not depend on which others are recorded with it.
        draw = random.Random(seed)
        for number in track(range(episodes), f"recording {name}", console=Console(stderr=True)):
            world = worlds.create(name, varied_options(name, draw))
            write_logs(logs / f"{name}.{seed}.xz", [record_log(world, seed + number)])
            world.close()


@app.command()
def train(
    logs: Logs = Path("runs/planner/logs"),
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the model and its curve go.")] = Path(
        "runs/planner/model"
    ),
    minutes: Annotated[float, typer.Option(help="How long to train in this sitting.")] = 30.0,
    total_minutes: Annotated[
        float | None, typer.Option(help="The whole training, if this is one sitting of several.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that make lessons.")] = 2,
) -> None:
    """Train the planner on recorded logs; a second sitting goes on where the first stopped.

    [dim]brace planner train --minutes 20 --workers 14[/]
    """
    from brace.training.shipping import train_and_write  # noqa: PLC0415 - torch

    files = sorted(logs.glob("*.xz"))
    if not files:
        raise BraceError(f"no logs in {logs}; make some with: brace planner data babyai-v1 --logs {logs}")
    train_and_write(files, out, minutes=minutes, total_minutes=total_minutes, workers=workers)
