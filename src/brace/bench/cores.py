"""Which cores an episode has for itself, so that measured latencies are its own."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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
