"""A progress bar and a table that fills while episodes run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn
from rich.progress import Task as Bar
from rich.table import Table
from rich.text import Text

from brace.bench.episodes import EpisodeResult, Task
from brace.bench.runner import run_tasks
from brace.errors import BraceError
from brace.loop.episode import Watch

_MOST_ROWS = 14
"""A live table longer than the screen flickers; the rows worked on last are shown."""


@dataclass(slots=True)
class _Row:
    episodes: int = 0
    successes: int = 0
    errors: list[str] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    misses: int = 0

    def add(self, result: EpisodeResult) -> None:
        self.episodes += 1
        self.successes += bool(result.record.success)
        self.latencies_ms += result.latencies_ms
        self.misses += result.misses
        if result.record.error:
            self.errors.append(f"episode {result.record.episode}: {result.record.error}")

    def cells(self) -> list[str]:
        calls = len(self.latencies_ms)
        p50, p95 = (f"{np.percentile(self.latencies_ms, q):.1f}" if calls else "–" for q in (50, 95))
        missed = f"{100 * self.misses / calls:.1f} %" if calls else "–"
        success = f"{100 * self.successes / self.episodes:.0f} %"
        return [str(self.episodes), success, f"{calls / self.episodes:.1f}", p50, p95, missed]


def pace(done: float, total: float | None, elapsed_s: float | None) -> str:
    """The rate so far, and the time left at that rate."""
    if not done or not elapsed_s or total is None:
        return "– a minute, – left"
    rate = done / elapsed_s
    left = timedelta(seconds=round((total - done) / rate))
    return f"{60 * rate:.3g} a minute, {left} left"


class _Pace(ProgressColumn):
    def render(self, task: Bar) -> Text:
        return Text(pace(task.completed, task.total, task.finished_time or task.elapsed))


def run_with_progress(
    tasks: Sequence[Task],
    labels: dict[Path, str],
    *,
    jobs: int | None,
    console: Console,
    timeout_s: float | None = None,
    ray: str | None = None,
    watch: Watch | None = None,
) -> None:
    """Run the tasks, showing how far they are and what comes out; an episode that raised is an error."""
    rows: dict[str, _Row] = {}
    bar = Progress(TextColumn("episodes"), BarColumn(), MofNCompleteColumn(), _Pace(), console=console)
    total = bar.add_task("episodes", total=len(tasks))

    def view() -> Group:
        table = Table("run", "episodes", "success", "calls/ep", "P50 ms", "P95 ms", "missed", box=None)
        for label, row in list(rows.items())[-_MOST_ROWS:]:
            table.add_row(label, *row.cells())
        return Group(bar, table)

    def show(task: Task, result: EpisodeResult) -> None:
        rows.setdefault(labels[task.directory], _Row()).add(result)
        bar.advance(total)

    live = Live(get_renderable=view, console=console, refresh_per_second=4, transient=not console.is_terminal)
    try:
        with live:
            run_tasks(tasks, jobs=jobs, timeout_s=timeout_s, ray=ray, progress=show, watch=watch)
    except KeyboardInterrupt:
        ended = sum(row.episodes for row in rows.values())
        console.print(
            f"interrupted after {ended} of {len(tasks)} episodes; they are kept: "
            "go on with the same command and --resume"
        )
        raise
    errors = [f"{label}, {error}" for label, row in rows.items() for error in row.errors]
    if errors:
        raise BraceError(f"{len(errors)} episodes ended in an error; the first: {errors[0]}")
