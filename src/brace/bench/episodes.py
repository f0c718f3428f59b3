"""One episode of one run: what it is, what can become of it, and the worker that plays it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from brace.errors import BraceError
from brace.ledger.manifest import read_manifest
from brace.ledger.records import Call, Episode, Record
from brace.ledger.writer import LedgerWriter
from brace.loop.build import build_clock, build_path, build_pool, build_rules, build_world
from brace.loop.config import RunConfig, load_config
from brace.loop.core import LoopCore
from brace.loop.episode import EpisodeLoop, Watch

T = TypeVar("T")
READY_S = 600.0
"""How long a worker may take until its world and planner are there: a large model may have to be loaded.
The time of an episode counts from then on."""


@dataclass(frozen=True, slots=True)
class Task:
    """One episode of one run."""

    directory: Path
    episode: int
    seed: int
    attempt: int


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """An episode that ended, with what a live table wants to know of its calls."""

    record: Episode
    latencies_ms: tuple[float, ...]
    misses: int

    @classmethod
    def of(cls, record: Episode, calls: list[Call]) -> EpisodeResult:
        """From the records of the episode."""
        return cls(record, tuple(call.latency_ms for call in calls), sum(call.missed for call in calls))


@dataclass(frozen=True, slots=True)
class Lost:
    """An attempt that did not come to its end: its worker died or was stopped."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """An error raised on purpose: as text, because not every error survives the way between processes."""

    message: str


def too_slow(timeout_s: float | None, *, ready: bool) -> Lost:
    """An episode that was stopped, or that could not begin."""
    if ready:
        return Lost(f"timed out after {timeout_s:g} s")
    return Lost(f"the world and the planner were not ready after {READY_S:g} s")


def attempt(work: Callable[[], T]) -> T | Lost | Refused:
    """Do a worker's work; what it raises becomes a value, because nobody sees a traceback of a worker."""
    try:
        return work()
    except BraceError as error:
        return Refused(str(error))
    except Exception as error:  # noqa: BLE001 - a simulator may raise anything when it is built
        return Lost(f"{type(error).__name__}: {error}")


class _Tally:
    """Passes records on and remembers the calls."""

    def __init__(self, ledger: LedgerWriter) -> None:
        self._ledger = ledger
        self.calls: list[Call] = []

    def write(self, record: Record) -> None:
        if isinstance(record, Call):
            self.calls.append(record)
        self._ledger.write(record)


class EpisodeRunner:
    """The parts of one configuration, built once."""

    def __init__(self, config: RunConfig, watch: Watch | None = None) -> None:
        self._config = config
        self._world = build_world(config)
        self._rules = build_rules(config)
        self._path = build_path(config, build_pool(config, self._world), self._world.skills)
        self._watch = watch
        self._clock = build_clock(config)

    def run(self, task: Task, ledger: LedgerWriter) -> EpisodeResult:
        """One episode. A world that raises ends its episode as failed; all up to that step is kept."""
        tally = _Tally(ledger)
        core: LoopCore[Any] = LoopCore(
            self._rules, self._path, tally, self._config.loop,
            episode=task.episode, attempt=task.attempt, seed=task.seed,
        )  # fmt: skip
        settings = self._config.loop
        loop = EpisodeLoop(
            core, self._world, self._clock, hold=settings.while_thinking == "hold",
            start_with_default=settings.start_with_default, watch=self._watch,
        )  # fmt: skip
        try:
            record = loop.run(task.episode, task.seed, task.attempt)
        except BraceError:
            # Raised on purpose: it concerns the whole run, not this episode.
            raise
        except Exception as error:  # noqa: BLE001 - a simulator may raise anything; the episode says what
            record = Episode(
                episode=task.episode, attempt=task.attempt, seed=task.seed, world=self._world.id,
                success=False, steps=core.t + 1, wait_ms=core.wait_ms,
                error=f"{type(error).__name__}: {error}",
            )  # fmt: skip
        ledger.write(record)
        return EpisodeResult.of(record, tally.calls)

    def close(self) -> None:
        """Close the world, and let the planner's threads go."""
        self._path.pool.close()
        self._world.close()


class EpisodeWorker:
    """Keeps the parts and the shard of the run that is being worked on, and of no other: a simulator or a
    model is large, and the tasks of one run come one after another."""

    def __init__(self, watch: Watch | None = None) -> None:
        self._watch = watch
        self._directory: Path | None = None
        self._runner: EpisodeRunner | None = None
        self._ledger: LedgerWriter | None = None

    def prepare(self, directory: Path, config: dict[str, Any] | None = None) -> EpisodeRunner:
        """Have the parts of a run ready; its configuration is that of its manifest, if not given."""
        if self._runner is None or directory != self._directory:
            self.close()
            self._runner = EpisodeRunner(load_config(config or read_manifest(directory).config), self._watch)
            self._directory = directory
        return self._runner

    def run(self, task: Task) -> EpisodeResult:
        """One episode, written into a shard of the run directory."""
        runner = self.prepare(task.directory)
        # Not in `prepare`: a worker that plays no episode leaves no empty shard.
        if self._ledger is None:
            self._ledger = LedgerWriter(task.directory)
        return runner.run(task, self._ledger)

    def close(self) -> None:
        """Close what is open."""
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None
        if self._runner is not None:
            self._runner.close()
            self._runner = None
