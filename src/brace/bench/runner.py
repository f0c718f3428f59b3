"""Runs the episodes of one or many configurations: seeded, resumable, in this process or in several.

Each episode is tried twice at most, and none is silently missing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from brace.bench.episodes import EpisodeResult, EpisodeWorker, Lost, Task
from brace.bench.ray_pool import RayPool
from brace.bench.workers import Workers, own_cores, remark_on, share_out
from brace.errors import BraceError, ConfigError, LedgerError
from brace.ledger.lock import lock_runs
from brace.ledger.manifest import MANIFEST, add_remark, describe_run, read_manifest, write_manifest
from brace.ledger.records import Call, Episode, Step
from brace.ledger.scan import finished_episodes, next_attempts, read_records, shards
from brace.ledger.writer import LedgerWriter
from brace.loop.build import check_parts
from brace.loop.config import RunConfig, dump_config, load_config
from brace.loop.episode import Watch

Progress = Callable[[Task, EpisodeResult], None]


class Pool(Protocol):
    """Workers, wherever they are. Each has one episode at a time."""

    def free(self) -> bool:
        """Whether another episode can be started."""

    def start(self, task: Task) -> None:
        """Give an episode to a free worker."""

    def wait(self) -> list[tuple[Task, EpisodeResult | Lost]]:
        """Wait until something happened; the episodes that ended or were lost. An error that concerns the
        whole run, such as a configuration that cannot work, is raised."""

    def close(self, *, at_once: bool) -> None:
        """End the workers; `at_once`: in the middle of what they do."""


def prepare_run(config: RunConfig, directory: Path, *, resume: bool) -> list[Task]:
    """Write the manifest of a new run, or check that of an old one; say which episodes are left.

    Who wants nobody else to begin the same run between this and `run_tasks` holds `lock_runs` around both.
    """
    with lock_runs([directory]):
        if (directory / MANIFEST).exists():
            if not resume:
                raise LedgerError(
                    f"{directory} already holds a run; go on with --resume, or choose another --out"
                )
            manifest = read_manifest(directory)
            try:
                same = load_config(manifest.config) == config and manifest.seeds == config.seeds
            except BraceError:  # of another brace, with other keys
                same = False
            if not same:
                raise LedgerError(f"{directory} was made with another configuration; choose another --out")
        elif shards(directory):
            raise LedgerError(
                f"{directory} holds records but no {MANIFEST}: a part of some run; choose another --out"
            )
        else:
            check_parts(config)
            write_manifest(directory, describe_run(config.name, dump_config(config), config.seeds))
        done, attempts = finished_episodes(directory), next_attempts(directory)
    planned = dict(enumerate(config.seeds))
    for end in done.values():
        if planned.get(end.episode) != end.seed:
            raise LedgerError(
                f"{directory} holds an episode {end.episode} with seed {end.seed}, which is not of this run: "
                "take the foreign shard out, or choose another --out"
            )
    return [
        Task(directory, episode, seed, attempts.get(episode, 0))
        for episode, seed in planned.items()
        if episode not in done
    ]


def run_tasks(
    tasks: Sequence[Task],
    *,
    jobs: int | None = None,
    timeout_s: float | None = None,
    ray: str | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> None:
    """Run the tasks of any number of prepared runs, `jobs` at a time. Each process writes shards of its own.

    With one job (the default) and no timeout the episodes run in this process, where they can be watched.
    Elsewhere an episode whose worker dies or that takes longer than `timeout_s` seconds is tried once more.
    `ray` is the address of a Ray cluster; there, `jobs` is by default as many as it has cores.
    """
    if timeout_s is not None and not timeout_s > 0:
        raise ConfigError(f"timeout = {timeout_s:g}: must be > 0 seconds")
    here = jobs in (None, 1) and timeout_s is None and ray is None
    if watch is not None and not here:
        raise ValueError("only one job in this process, without a timeout, can be watched")
    if not tasks:
        return
    with lock_runs(task.directory for task in tasks):
        if here:
            results = _in_turn(tasks, watch)
        elif ray is None:
            results = run_on(_workers(tasks, jobs or 1, timeout_s), tasks)
        else:
            results = run_on(RayPool(ray, tasks, jobs=jobs, timeout_s=timeout_s), tasks)
        # The generator ends the workers when it is closed: also where `progress` raises.
        with closing(results):
            for task, result in results:
                if progress is not None:
                    progress(task, result)


def _in_turn(tasks: Sequence[Task], watch: Watch | None) -> Generator[tuple[Task, EpisodeResult], None, None]:
    worker = EpisodeWorker(watch)
    try:
        for task in tasks:
            yield task, worker.run(task)
    finally:
        worker.close()


def _workers(tasks: Sequence[Task], jobs: int, timeout_s: float | None) -> Pool:
    # A worker without a task would only take cores from the others.
    jobs = min(jobs, len(tasks))
    cores = own_cores()
    remark = remark_on(jobs, len(cores))
    for directory in dict.fromkeys(task.directory for task in tasks):
        # With any other clock latencies are not measured, so it does not matter who waits for whom.
        if remark is not None and load_config(read_manifest(directory).config).loop.clock == "wall":
            add_remark(directory, remark)
    return Workers(share_out(jobs, cores), timeout_s)


def run_on(pool: Pool, tasks: Sequence[Task]) -> Generator[tuple[Task, EpisodeResult], None, None]:
    """Run the tasks. A lost one is tried once more, with the next attempt number; then it has failed."""
    waiting = deque(tasks)
    second_tries: set[Task] = set()
    under_way = 0
    # Until all is done: an error or Ctrl-C does not wait for episodes that are under way.
    at_once = True
    try:
        while waiting or under_way:
            while waiting and pool.free():
                pool.start(waiting.popleft())
                under_way += 1
            for task, outcome in pool.wait():
                under_way -= 1
                if isinstance(outcome, EpisodeResult):
                    yield task, outcome
                elif task in second_tries:
                    yield task, write_off(task, outcome.reason)
                else:
                    again = replace(task, attempt=task.attempt + 1)
                    second_tries.add(again)
                    waiting.appendleft(again)
        at_once = False
    finally:
        pool.close(at_once=at_once)


def write_off(task: Task, reason: str) -> EpisodeResult:
    """End a lost attempt in the ledger: failed, for this reason, with the steps and calls it left there."""
    left = [
        record
        for record in read_records(task.directory)
        if (record.episode, record.attempt) == (task.episode, task.attempt)
    ]
    calls = [record for record in left if isinstance(record, Call)]
    record = Episode(
        episode=task.episode, attempt=task.attempt, seed=task.seed,
        world=load_config(read_manifest(task.directory).config).world.name, success=False,
        steps=max((record.t + 1 for record in left if isinstance(record, Step)), default=0),
        wait_ms=sum(call.wait_ms for call in calls), error=reason,
    )  # fmt: skip
    with LedgerWriter(task.directory) as ledger:
        ledger.write(record)
    return EpisodeResult.of(record, calls)
