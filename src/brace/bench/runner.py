"""Runs the episodes of one or many configurations: seeded, resumable, in this process or in several."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brace.errors import BraceError, LedgerError
from brace.ledger.manifest import MANIFEST, describe_run, read_manifest, write_manifest
from brace.ledger.records import Call, Episode, Record
from brace.ledger.scan import finished_episodes, next_attempts
from brace.ledger.writer import LedgerWriter
from brace.loop.build import build_clock, build_path, build_pool, build_rules, build_world
from brace.loop.config import RunConfig, dump_config, load_config
from brace.loop.core import LoopCore
from brace.loop.episode import EpisodeLoop, Watch

Progress = Callable[["Task", "EpisodeResult"], None]


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
    """The parts of one configuration, built once, and a shard of its ledger."""

    def __init__(self, config: RunConfig, directory: Path, watch: Watch | None = None) -> None:
        self._config = config
        self._world = build_world(config)
        self._rules = build_rules(config)
        self._path = build_path(config, build_pool(config, self._world), self._world.skills)
        self._watch = watch
        self._clock = build_clock(config)
        self._ledger = LedgerWriter(directory)

    def run(self, task: Task) -> EpisodeResult:
        """One episode. A world that raises ends its episode as failed; all up to that step is kept."""
        tally = _Tally(self._ledger)
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
            raise
        except Exception as error:  # noqa: BLE001 - a simulator may raise anything; the episode says what
            record = Episode(
                episode=task.episode, attempt=task.attempt, seed=task.seed, world=self._world.id,
                success=False, steps=core.t + 1, wait_ms=core.wait_ms,
                error=f"{type(error).__name__}: {error}",
            )  # fmt: skip
        self._ledger.write(record)
        return EpisodeResult(
            record,
            tuple(call.latency_ms for call in tally.calls),
            sum(call.missed for call in tally.calls),
        )

    def close(self) -> None:
        """Close the shard and the world, and let the planner's threads go."""
        self._ledger.close()
        self._path.pool.close()
        self._world.close()


def prepare_run(config: RunConfig, directory: Path, *, resume: bool) -> list[Task]:
    """Write the manifest of a new run, or check that of an old one; say which episodes are left."""
    if (directory / MANIFEST).exists():
        if not resume:
            raise LedgerError(
                f"{directory} already holds a run; go on with --resume, or choose another --out"
            )
        if load_config(read_manifest(directory).config) != config:
            raise LedgerError(f"{directory} was made with another configuration; choose another --out")
    else:
        write_manifest(directory, describe_run(config.name, dump_config(config), config.seeds))
    done, attempts = finished_episodes(directory), next_attempts(directory)
    return [
        Task(directory, episode, seed, attempts.get(episode, 0))
        for episode, seed in enumerate(config.seeds)
        if episode not in done
    ]


def run_tasks(
    tasks: Sequence[Task], *, jobs: int = 1, progress: Progress | None = None, watch: Watch | None = None
) -> None:
    """Run the tasks of any number of prepared runs. Each process writes shards of its own.

    Who watches can only do so in this process, with one job.
    """
    if watch is not None and jobs > 1:
        raise ValueError("only one job can be watched")
    results = _in_processes(tasks, jobs) if jobs > 1 else _in_turn(tasks, watch)
    for task, result in results:
        if progress is not None:
            progress(task, result)


def _in_turn(tasks: Sequence[Task], watch: Watch | None) -> Iterator[tuple[Task, EpisodeResult]]:
    crew = _Crew(watch)
    try:
        for task in tasks:
            yield task, crew.run(task)
    finally:
        crew.close()


def _in_processes(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, EpisodeResult]]:
    # Fresh interpreters: forking one whose planner pools have threads could deadlock.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        waiting: dict[Future[EpisodeResult], Task] = {}
        queue = iter(tasks)
        try:
            while True:
                # A short queue, so that an interrupt is not followed by thousands of episodes.
                while len(waiting) < 4 * jobs and (task := next(queue, None)) is not None:
                    waiting[pool.submit(_run_in_worker, task)] = task
                if not waiting:
                    return
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield waiting.pop(future), future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


class _Crew:
    """Keeps the parts of the run that is being worked on, and of no other: a simulator or a model is large,
    and the tasks of one run come one after another."""

    def __init__(self, watch: Watch | None = None) -> None:
        self._watch = watch
        self._directory: Path | None = None
        self._runner: EpisodeRunner | None = None

    def run(self, task: Task) -> EpisodeResult:
        if self._runner is None or task.directory != self._directory:
            self.close()
            config = load_config(read_manifest(task.directory).config)
            self._runner = EpisodeRunner(config, task.directory, self._watch)
            self._directory = task.directory
        return self._runner.run(task)

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()
            self._runner = None


_WORKER_CREW = _Crew()
"""That of a worker process."""


def _run_in_worker(task: Task) -> EpisodeResult:
    return _WORKER_CREW.run(task)
