"""A fake world that misbehaves on demand, found by worker processes as that of an outside package is."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brace.ledger.records import Episode
from brace.ledger.scan import read_records
from brace.worlds.proxy.world import ProxyWorld

WORLD = "fake-moody-v1"


@dataclass(eq=False)
class FakeMoodyWorld(ProxyWorld):
    """In its fifth step it does what `moods` has for the episode's seed: dies, hangs or exits.

    With `once` (a folder) only at the first time. Every step may take `step_s` seconds of real time, and
    `notes` is a folder where each world leaves which cores and how many threads it was given.
    """

    moods: dict[str, str] = field(default_factory=dict)
    once: str | None = None
    step_s: float = 0.0
    build_s: float = 0.0
    notes: str | None = None

    def __post_init__(self) -> None:
        time.sleep(self.build_s)
        super().__init__(corrected=True)
        self.id = WORLD
        self._seed = 0
        if self.notes is not None:
            facts = f"{sorted(os.sched_getaffinity(0))} {os.environ.get('OMP_NUM_THREADS')}"
            (Path(self.notes) / str(os.getpid())).write_text(facts)

    def reset(self, seed: int) -> None:
        self._seed = seed
        super().reset(seed)

    def step(self, *, hold: bool) -> None:
        time.sleep(self.step_s)
        if self._step == 5:
            self._show(self.moods.get(str(self._seed)))
        super().step(hold=hold)

    def _show(self, mood: str | None) -> None:
        if mood is None:
            return
        if self.once is not None:
            try:
                (Path(self.once) / str(self._seed)).touch(exist_ok=False)
            except FileExistsError:
                return
        if mood == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif mood == "exit":
            os._exit(3)
        elif mood == "hang":
            time.sleep(3600)


def install(site: Path) -> None:
    """Make the fake world an entry point of a package on `site`, which must be on the path."""
    info = site / "fake_worlds-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-worlds\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[brace.worlds]\n{WORLD} = bench_kit:FakeMoodyWorld\n")


def moody(episodes: int = 4, **options: Any) -> dict[str, Any]:
    """A quick configuration of it."""
    return {
        "world": {"name": WORLD, "options": options},
        "planner": {"name": "fake-fixed", "options": {"prefill_ms": 1, "decode_ms": 0}},
        "episodes": episodes,
        "controller": {"cooldown": 6, "commit": 1, "period": 10, "progress_epsilon": 0.005},
        "modes": {"pruned": {"tokens": 480, "slo_ms": 50, "compress": "recency"}},
        "loop": {"while_thinking": "continue"},
    }


def ends(directory: Path) -> Counter[int]:
    """How often each episode has an end in the ledger, of whatever attempt."""
    return Counter(record.episode for record in read_records(directory) if isinstance(record, Episode))
