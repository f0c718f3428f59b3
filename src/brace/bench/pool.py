"""Many episodes on many workers: each is tried twice at most, and none is silently missing."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from brace.bench.episodes import EpisodeResult, Task
from brace.ledger.manifest import read_manifest
from brace.ledger.records import Call, Episode, Step
from brace.ledger.scan import read_records
from brace.ledger.writer import LedgerWriter
from brace.loop.config import load_config

READY_S = 600.0
"""How long a worker may take until its world and planner are there: a large model may have to be loaded.
The time of an episode counts from then on."""


@dataclass(frozen=True, slots=True)
class Lost:
    """An attempt that did not come to its end: its worker died or was stopped."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """An error raised on purpose: as text, because not every error survives the way between processes."""

    message: str


def timed_out(timeout_s: float | None) -> Lost:
    """An episode that was stopped."""
    return Lost(f"timed out after {timeout_s:g} s")


def not_ready() -> Lost:
    """An episode that could not begin."""
    return Lost(f"the world and the planner were not ready after {READY_S:g} s")


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


def run_on(pool: Pool, tasks: Sequence[Task]) -> Generator[tuple[Task, EpisodeResult], None, None]:
    """Run the tasks. A lost one is tried once more, with the next attempt number; then it has failed."""
    waiting = deque(tasks)
    second_tries: set[Task] = set()
    under_way = 0
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
