"""One planner for several agents: earliest deadline first, late calls shed, hung ones left behind."""

from __future__ import annotations

import atexit
import heapq
import itertools
import threading
import time
import weakref
from dataclasses import dataclass, field

from brace.errors import BraceError
from brace.planners.base import Answer, AnswerStatus, Planner, Prompt, Usage
from brace.planners.deadline import Deadline

HUNG_AFTER_S = 0.25
"""A cancelled planner that has not returned after this long is given up, and its place filled anew."""
MOST_HUNG = 16
"""More planners that never came back than this, and further calls are refused."""

LEAVE_S = 1.0
"""At the program's end workers have this long to stop."""


class PlannerPool:
    """Runs a planner's calls in `workers` threads of its own. Agents that share a planner share its pool."""

    def __init__(self, planner: Planner, workers: int = 1) -> None:
        if workers < 1:
            raise BraceError(f"a planner pool needs 1 or more workers, not {workers}")
        self.planner = planner
        self._workers = workers
        self._queue: list[tuple[float, int, _Job]] = []
        self._numbers = itertools.count()
        self._change = threading.Condition()
        self._healthy: set[_Worker] = set()
        self._hung = 0
        self._asked = False
        self._closed = False
        _POOLS.add(self)

    def ask(self, prompt: Prompt, deadline: Deadline) -> Answer:
        """Queue the prompt and wait for the answer, the deadline or a cancellation, whichever is first."""
        job = _Job(prompt, deadline)
        with self._change:
            if self._closed:
                raise BraceError("the planner pool is closed")
            if self._hung >= MOST_HUNG:
                return Answer(
                    "", "failed", error=f"planner {self.planner.name!r} has {self._hung} hung calls"
                )
            job.cold, self._asked = not self._asked, True
            while len(self._healthy) < self._workers:
                self._healthy.add(_Worker(self))
            # The number decides between equal deadlines, for jobs cannot be compared.
            heapq.heappush(
                self._queue, (deadline.remaining_s() + time.perf_counter(), next(self._numbers), job)
            )
            self._change.notify()
        while not deadline.wait(job.done, HUNG_AFTER_S) and not deadline.expired():
            self._replace_hung()
        answer = job.answer()
        self._replace_hung()
        return answer

    def close(self) -> None:
        """Take no more calls, let idle workers go, and close a planner that wants it."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        self.planner.close()

    def _leave(self, until: float) -> None:
        with self._change:
            self._closed = True
            self._change.notify_all()
            workers = list(self._healthy)
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join(max(0.0, until - time.monotonic()))

    def _replace_hung(self) -> None:
        with self._change:
            for worker in [w for w in self._healthy if w.is_hung()]:
                self._healthy.discard(worker)
                self._hung += 1
                self._healthy.add(_Worker(self))

    def _next(self, worker: _Worker) -> _Job | None:
        with self._change:
            # It was given up as hung and came back after all; another has taken its place.
            if worker not in self._healthy:
                self._hung -= 1
                return None
            while not self._queue:
                if self._closed:
                    return None
                self._change.wait()
            return heapq.heappop(self._queue)[2]


_POOLS: weakref.WeakSet[PlannerPool] = weakref.WeakSet()


@atexit.register
def _leave_in_order() -> None:
    """A thread within a model's own code when Python ends would bring the whole process down."""
    until = time.monotonic() + LEAVE_S
    for pool in list(_POOLS):
        pool._leave(until)


class _Worker(threading.Thread):
    def __init__(self, pool: PlannerPool) -> None:
        # A daemon: a planner that hangs must not keep the program from ending.
        super().__init__(daemon=True, name=f"planner {pool.planner.name}")
        self._pool = pool
        self._job: _Job | None = None
        self.start()

    def run(self) -> None:
        while (job := self._pool._next(self)) is not None:
            self._job = job
            job.run(self._pool.planner)
            self._job = None

    def stop(self) -> None:
        job = self._job
        if job is not None:
            job.deadline.cancel("the program ended")

    def is_hung(self) -> bool:
        job = self._job
        return job is not None and job.abandoned_for_s() > HUNG_AFTER_S


@dataclass(eq=False)
class _Job:
    prompt: Prompt
    deadline: Deadline
    cold: bool = False
    done: threading.Event = field(default_factory=threading.Event)
    queued: float = field(default_factory=time.perf_counter)
    started: float | None = None
    first: float | None = None
    last: float | None = None
    pieces: list[str] = field(default_factory=list)
    usage: Usage | None = None
    error: str = ""
    abandoned: float | None = None

    def run(self, planner: Planner) -> None:
        """In a worker thread: let the planner write until it is done or nobody waits any more."""
        if not self.deadline.expired():
            self.started = time.perf_counter()
            try:
                for piece in planner.stream(self.prompt, self.deadline):
                    if isinstance(piece, Usage):
                        self.usage = piece
                        continue
                    if not isinstance(piece, str):
                        raise TypeError(f"the planner gave {type(piece).__name__} where text was expected")
                    self.last = time.perf_counter()
                    self.first = self.first or self.last
                    self.pieces.append(piece)
                    if self.deadline.expired():
                        break
            except BaseException as error:  # noqa: BLE001 - whatever a planner raises is logged, not lost
                self.error = f"{type(error).__name__}: {error}"
        self.done.set()
        self.deadline.wake()

    def answer(self) -> Answer:
        """In the asking thread: what is there by now."""
        now = time.perf_counter()
        finished = self.done.is_set()
        if not finished:
            self.abandoned = now
        status: AnswerStatus = "done"
        if self.deadline.cancelled_by is not None:
            status = "cancelled"
        elif self.started is None:
            status = "shed"
        elif not finished or self.deadline.remaining_s() <= 0:
            # A planner that raises because its time is over was cut, not broken.
            status = "cut"
        elif self.error:
            status = "failed"
        started = self.started or now
        end = (self.last or now) if finished else now
        first = self.first or (now if self.started else started)
        return Answer(
            # Of a copy: a planner that was given up may still add to the list.
            text="".join(list(self.pieces)),
            status=status,
            queue_ms=(started - self.queued) * 1e3,
            # The worker may have started just after this thread looked at the clock.
            prefill_ms=max(0.0, first - started) * 1e3,
            decode_ms=max(0.0, end - first) * 1e3,
            error=self.error,
            cold=self.cold,
            usage=self.usage,
        )

    def abandoned_for_s(self) -> float:
        return 0.0 if self.abandoned is None else time.perf_counter() - self.abandoned
