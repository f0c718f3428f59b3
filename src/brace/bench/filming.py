"""Pictures of an episode that has been run: it is replayed, so that drawing disturbs no measurement."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import numpy as np

from brace.bench.episodes import EpisodeRunner, Task
from brace.errors import BraceError
from brace.ledger.manifest import read_manifest
from brace.ledger.reader import load_run
from brace.ledger.writer import LedgerWriter
from brace.loop.config import load_config
from brace.report.frames import MOST, episodes_with_frames, save_frame
from brace.worlds import World


def film_run(directory: Path, episode: int) -> str:
    """Replay an episode and keep some frames of it beside its ledger; empty, or why there are none."""
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

    task = Task(directory, episode, int(ends[episode]["seed"]), 0)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            runner = EpisodeRunner(dataclasses.replace(config, loop=loop), watch)
            ledger = LedgerWriter(Path(scratch))
            try:
                result = runner.run(task, ledger)
            finally:
                ledger.close()
                runner.close()
    except BraceError as error:
        return str(error)
    if result.record.error:
        return result.record.error
    return "" if drawn else "its world draws no pictures"
