"""What a suite leaves beside its runs: frames of an episode each, the table, the plots and the page."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from brace.bench.episodes import EpisodeRunner, Task
from brace.bench.plots import make_plot
from brace.bench.suite import Suite
from brace.bench.table import finished_runs, missing, suite_tables
from brace.errors import BraceError
from brace.ledger.manifest import read_manifest
from brace.ledger.reader import load_run
from brace.ledger.writer import LedgerWriter
from brace.loop.config import load_config
from brace.report.frames import MOST, episodes_with_frames, save_frame
from brace.report.rows import Table
from brace.report.suite_page import SuiteView, write_suite_page
from brace.report.suite_plots import write_plots
from brace.report.timeline import eventful
from brace.worlds import World

PAGE = "report.html"
_NO_PICTURES = "its world draws no pictures"


def write_results(suite: Suite, folder: Path) -> list[Table]:
    """Write the page, the plots and the table (CSV and Markdown) of a suite's runs; its tables."""
    every = finished_runs(suite, folder)
    tables = suite_tables(suite, every)
    variants = [variant for variant in suite.variants if variant.slug in every]
    drawn = [make_plot(spec, [(one, every[one.slug]) for one in variants]) for spec in suite.plots]
    plots = tuple(plot for plot in drawn if plot is not None)
    view = SuiteView(
        title=suite.title,
        about=suite.about,
        runs={variant.label: every[variant.slug].run for variant in variants},
        labels={variant.label: variant.labels for variant in variants},
        tables=tuple(tables),
        command=f"brace bench {suite.name}" + ("" if suite.form == "full" else f" --{suite.form}"),
        partial=missing(suite, every),
        folders={variant.label: folder / variant.slug for variant in variants},
        plots=plots,
    )
    write_suite_page(view, folder / PAGE)
    write_plots(plots, folder)
    (folder / "table.csv").write_text(tables[0].csv(), encoding="utf-8")
    (folder / "table.md").write_text("\n".join(table.markdown() for table in tables), encoding="utf-8")
    return tables


def film_suite(suite: Suite, folder: Path) -> Iterator[str]:
    """Film an episode of each run for the page; for each reason why not, which runs have no frames."""
    lacking: dict[str, list[str]] = {}
    for variant in suite.variants:
        directory = folder / variant.slug
        episodes = eventful(load_run(directory), 1)
        if episodes and (why_not := film_run(directory, episodes[0])):
            lacking.setdefault(why_not, []).append(variant.label)
    for why_not, labels in lacking.items():
        yield f"no frames of {labels[0] if len(labels) == 1 else f'{len(labels)} runs'}: {why_not}"


def film_run(directory: Path, episode: int) -> str:
    """Replay an episode, so that drawing disturbs no measurement, and keep some frames beside its ledger.

    Empty, or why there are none.
    """
    if episode in episodes_with_frames(directory):
        return ""
    ends = {end["episode"]: end for end in load_run(directory).episodes.iter_rows(named=True)}
    if episode not in ends:
        return f"episode {episode} is not finished"
    steps = int(ends[episode]["steps"])
    wanted = set(np.linspace(0, max(0, steps - 1), MOST).round().astype(int).tolist())
    config = load_config(read_manifest(directory).config)
    loop = dataclasses.replace(config.loop, clock="replay", recording=str(directory))
    drawn = 0

    def watch(world: World, step: int) -> None:
        nonlocal drawn
        picture = world.frame() if step in wanted else None
        if picture is not None:
            save_frame(directory, episode, step, picture)
            drawn += 1
        elif step in wanted and not drawn:
            raise BraceError(_NO_PICTURES)  # it will draw none later, so the episode need not be played

    task = Task(directory, episode, int(ends[episode]["seed"]), 0)
    try:
        # The replay's records are thrown away: the run has them already.
        with tempfile.TemporaryDirectory() as scratch:
            runner = EpisodeRunner(dataclasses.replace(config, loop=loop), watch)
            try:
                with LedgerWriter(Path(scratch)) as ledger:
                    result = runner.run(task, ledger)
            finally:
                runner.close()
    except BraceError as error:
        return str(error)
    return result.record.error or ("" if drawn else _NO_PICTURES)
