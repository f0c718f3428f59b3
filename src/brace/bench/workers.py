"""Episodes in worker processes of this machine, each with cores of its own.

A worker is a fresh interpreter with one episode at a time. It is killed and replaced when an episode takes
too long, and replaced when it dies.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

from brace.bench.episodes import READY_S, EpisodeResult, EpisodeWorker, Lost, Refused, Task, attempt, too_slow
from brace.errors import BraceError

_END_S = 10.0
"""How long a worker may take to close its world and its planner."""
_READY: Literal["ready"] = "ready"
_THREADS = "OMP_NUM_THREADS"


@dataclass(frozen=True, slots=True)
class Share:
    """What one worker may use."""

    cpus: frozenset[int] | None = None
    """None: whatever is free."""
    threads: int | None = None
    """How many threads a numerical library should start; None: as it likes."""

    @contextmanager
    def for_children(self) -> Iterator[None]:
        """Processes started meanwhile have this share, from their first thread on.

        It must be so from outside: a library that made its threads when it was imported would keep them.
        """
        before = os.sched_getaffinity(0) if self.cpus is not None else set()
        limited = self.threads is not None and _THREADS not in os.environ
        if self.cpus is not None:
            os.sched_setaffinity(0, self.cpus)
        if limited:
            os.environ[_THREADS] = str(self.threads)
        try:
            yield
        finally:
            if limited:
                del os.environ[_THREADS]
            if self.cpus is not None:
                os.sched_setaffinity(0, before)


def own_cores() -> list[frozenset[int]]:
    """The cores this process may use, each as the CPUs it shows (two where it runs two threads at a time)."""
    try:
        cpus = sorted(os.sched_getaffinity(0))
    except AttributeError:
        # macOS has no such call.
        return [frozenset({number}) for number in range(os.cpu_count() or 1)]
    cores: defaultdict[str, set[int]] = defaultdict(set)
    for cpu in cpus:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            cores[siblings.read_text(encoding="ascii").strip()].add(cpu)
        except OSError:
            cores[str(cpu)].add(cpu)
    return [frozenset(group) for group in cores.values()]


def share_out(jobs: int, cores: Sequence[frozenset[int]]) -> list[Share]:
    """An equal share for each job, so that their latencies compare; with too few cores nobody has his own."""
    if jobs == 1:
        return [Share()]
    each = len(cores) // jobs
    if each == 0:
        return [Share(threads=1)] * jobs
    shares = []
    for job in range(jobs):
        cpus = frozenset[int]().union(*cores[job * each : (job + 1) * each])
        shares.append(Share(cpus if hasattr(os, "sched_setaffinity") else None, each))
    return shares


def remark_on(jobs: int, cores: int) -> str | None:
    """What a reader of measured latencies must be told."""
    if jobs <= cores:
        return None
    return (
        f"{jobs} jobs on {cores} core{'s' * (cores > 1)}: measured latencies include waiting for one another"
    )


class Workers:
    """The pool of this machine: one worker for each share of its cores."""

    def __init__(self, shares: Sequence[Share], timeout_s: float | None = None) -> None:
        self._shares = shares
        self._timeout_s = timeout_s
        self._workers: list[_Worker | None] = [None] * len(shares)

    def free(self) -> bool:
        """Whether a worker has nothing to do."""
        return any(worker is None or worker.task is None for worker in self._workers)

    def start(self, task: Task) -> None:
        """Give an episode to a free worker, and start one if need be."""
        place = next(
            number for number, worker in enumerate(self._workers) if worker is None or worker.task is None
        )
        worker = self._workers[place]
        if worker is not None and worker.begin(task, self._timeout_s):
            return
        if worker is not None:  # it died of something after its last episode
            worker.kill()
        with _uninterrupted(), self._shares[place].for_children():
            worker = self._workers[place] = _Worker()
        worker.begin(task, self._timeout_s)

    def wait(self) -> list[tuple[Task, EpisodeResult | Lost]]:
        """Wait until at least one episode ended or was lost."""
        ended: list[tuple[Task, EpisodeResult | Lost]] = []
        while not ended:
            busy = [(place, worker) for place, worker in enumerate(self._workers) if worker and worker.task]
            signs = [sign for _, worker in busy for sign in (worker.connection, worker.process.sentinel)]
            deadlines = [worker.deadline for _, worker in busy if worker.deadline is not None]
            wait(signs, max(0.0, min(deadlines) - time.monotonic()) if deadlines else None)
            for place, worker in busy:
                task, outcome = worker.task, worker.look()
                if task is not None and outcome is not None:
                    ended.append((task, outcome))
                    if isinstance(outcome, Lost):
                        worker.kill()
                        self._workers[place] = None
        return ended

    def close(self, *, at_once: bool) -> None:
        """End the workers: let them close their worlds and shards, or kill them."""
        workers = [worker for worker in self._workers if worker is not None]
        if not at_once:
            for worker in workers:
                worker.dismiss()
            end = time.monotonic() + _END_S
            for worker in workers:
                worker.process.join(max(0.0, end - time.monotonic()))
        for worker in workers:
            worker.kill()
        self._workers = [None] * len(self._shares)


class _Worker:
    """One worker process, seen from here."""

    def __init__(self) -> None:
        # A fresh interpreter: forking one whose planner pools have threads could deadlock.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        # No daemon: a world may want processes of its own. The worker itself sees to it that it ends.
        self.process = context.Process(target=work, args=(theirs,))
        self.process.start()
        # While this side holds the other end, too, the worker's death would not end the pipe.
        theirs.close()
        self.task: Task | None = None
        self.deadline: float | None = None
        self._timeout_s: float | None = None
        self._ready = False

    def begin(self, task: Task, timeout_s: float | None) -> bool:
        """Hand it an episode; False if it is not there any more."""
        try:
            self.connection.send(task)
        except OSError:
            return False
        self.task, self._timeout_s, self._ready = task, timeout_s, False
        self.deadline = None if timeout_s is None else time.monotonic() + READY_S
        return True

    def look(self) -> EpisodeResult | Lost | None:
        """What became of its episode; None while it is running."""
        try:
            while self.connection.poll():
                message = self.connection.recv()
                if message == _READY:
                    self._ready = True
                    self.deadline = None if self._timeout_s is None else time.monotonic() + self._timeout_s
                elif isinstance(message, Refused):
                    raise BraceError(message.message)
                else:
                    self.task = self.deadline = None
                    outcome: EpisodeResult | Lost = message
                    return outcome
        except (EOFError, OSError):
            # The pipe can end a moment before the process has.
            self.process.join()
        if not self.process.is_alive():
            code = self.process.exitcode or 0
            return Lost(f"the worker died ({f'signal {-code}' if code < 0 else f'exit code {code}'})")
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return too_slow(self._timeout_s, ready=self._ready)
        return None

    def dismiss(self) -> None:
        """Ask it to end."""
        try:
            self.connection.send(None)
        except OSError:
            return

    def kill(self) -> None:
        """End it, with what it started itself; harmless when it has ended."""
        pid = self.process.pid
        if pid is not None and self.process.is_alive():
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:  # it is too young to lead a group
                self.process.kill()
        self.process.join()
        self.process.close()
        self.connection.close()


def work(connection: Connection[Any, Any]) -> None:
    """The life of a worker process: episodes, until it is sent None."""
    # A group of its own, so that `kill` also ends what a simulator has started.
    os.setpgid(0, 0)
    # Ctrl-C is for the parent, which then ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    worker = EpisodeWorker()

    def play(task: Task) -> EpisodeResult:
        worker.prepare(task.directory)
        connection.send(_READY)
        return worker.run(task)

    while (task := connection.recv()) is not None:
        connection.send(attempt(partial(play, task)))
    worker.close()


def _end_with_parent() -> None:
    """A worker whose parent was killed would write into a run that someone else may have taken up."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.killpg(0, signal.SIGKILL)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until a new worker is known here, and does not reach the worker while it is young."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
