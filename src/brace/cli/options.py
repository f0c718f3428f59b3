"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from brace.bench.grid import parse_setting

Settings = Annotated[
    list[str],
    typer.Option("--set", "-s", metavar="KEY=VALUE", help="Override a setting, e.g. controller.cooldown=3."),
]
Out = Annotated[Path, typer.Option("--out", "-o", help="The directory to write to.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a run that was interrupted.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", "-j", min=1,
        help="Episodes at a time, each on its own cores [default: 1; with --ray, what the cluster holds].",
    ),
]  # fmt: skip
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", metavar="SECONDS",
        help="The longest an episode may take; then it is stopped and tried once more.",
    ),
]  # fmt: skip
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray", metavar="ADDRESS", help="Run on the Ray cluster at this address, e.g. 10.0.0.5:6379."
    ),
]
Episodes = Annotated[
    int | None, typer.Option("--episodes", "-n", min=1, help="Episodes of each run, if not as configured.")
]
RunDirectory = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]


def overrides(settings: list[str], episodes: int | None) -> dict[str, Any]:
    """The settings given on the command line, by dotted key."""
    given = dict(parse_setting(text) for text in settings)
    return given if episodes is None else given | {"episodes": episodes}
