"""Episodes on a Ray cluster. Its nodes share no files with this machine: each sends back what it wrote."""

from __future__ import annotations

import importlib
import logging
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from brace.bench.episodes import READY_S, EpisodeResult, EpisodeWorker, Lost, Refused, Task, attempt, too_slow
from brace.bench.workers import own_cores, remark_on
from brace.errors import BraceError, MissingExtraError
from brace.ledger.manifest import add_remark, read_manifest
from brace.ledger.writer import LedgerWriter, add_shard

_ANSWER_S = 30.0
"""How long a cluster may take to let us in."""
_STARTS = 3
"""So many workers in a row that do not even start are an error of the cluster, not of an episode."""
_PROBE = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False, include_dashboard=False)"


class NodeWorker:
    """One worker on some node: a Ray actor with the parts of the run it is working on."""

    def __init__(self) -> None:
        self._worker = EpisodeWorker()

    def host(self) -> tuple[str, int]:
        """The machine it is on, and how many cores that has."""
        return socket.gethostname(), len(own_cores())

    def prepare(self, directory: Path, config: dict[str, Any]) -> Lost | Refused | None:
        """Have the world and the planner of that run ready."""
        failed = attempt(lambda: self._worker.prepare(directory, config))
        return failed if isinstance(failed, Lost | Refused) else None

    def run(self, task: Task, config: dict[str, Any]) -> tuple[EpisodeResult, bytes] | Lost | Refused:
        """One episode, and the shard with its records."""

        def play() -> tuple[EpisodeResult, bytes]:
            with TemporaryDirectory(prefix="brace-") as folder:
                with LedgerWriter(Path(folder)) as ledger:
                    result = self._worker.prepare(task.directory, config).run(task, ledger)
                return result, ledger.path.read_bytes()

        return attempt(play)


@dataclass(slots=True)
class _Place:
    """A worker, seen from here: what it is asked to do, and by when."""

    actor: Any
    asked: Any
    """Ray's reference to the answer that is awaited; None while it is idle."""
    stage: Literal["starting", "idle", "preparing", "running"] = "starting"
    task: Task | None = None
    deadline: float | None = None
    host: str = ""


class RayPool:
    """Workers on the cluster at `address`, as many as it has cores for (at most `jobs`)."""

    def __init__(
        self,
        address: str,
        tasks: Sequence[Task],
        *,
        jobs: int | None = None,
        timeout_s: float | None = None,
        cores: int = 1,
    ) -> None:
        self._ray = connect(address)
        self._timeout_s = timeout_s
        self._cores = cores
        self._directories = list(dict.fromkeys(task.directory for task in tasks))
        self._configs = {directory: read_manifest(directory).config for directory in self._directories}
        self._failed_starts = 0
        # Ray must not try again by itself: a second try has an attempt number of its own.
        self._actor = self._ray.remote(num_cpus=cores, max_restarts=0, max_task_retries=0)(NodeWorker)
        room = int(self._ray.cluster_resources().get("CPU", 0)) // cores
        if room == 0:
            self._ray.shutdown()
            raise BraceError(f"the Ray cluster at {address} has no {cores} free cores; add a node to it")
        nodes = sum(node["Alive"] for node in self._ray.nodes())
        self._remark(
            f"run on Ray ({nodes} node{'s' * (nodes > 1)}), {cores} reserved core{'s' * (cores > 1)} an "
            "episode; the host in the manifest is the one that handed the episodes out"
        )
        count = max(1, min(room, len(tasks), jobs or room))
        self._places = [self._new_place() for _ in range(count)]

    def free(self) -> bool:
        """Whether a worker has nothing to do."""
        return any(place.stage == "idle" for place in self._places)

    def start(self, task: Task) -> None:
        """Give an episode to an idle worker."""
        place = next(place for place in self._places if place.stage == "idle")
        config = self._configs[task.directory]
        place.task, place.stage = task, "preparing"
        place.asked = place.actor.prepare.remote(task.directory, config)
        place.deadline = None if self._timeout_s is None else time.monotonic() + READY_S

    def wait(self) -> list[tuple[Task, EpisodeResult | Lost]]:
        """Wait until a worker answered, died or was too slow; the episodes that ended by it."""
        asked = [place.asked for place in self._places if place.asked is not None]
        deadlines = [place.deadline for place in self._places if place.deadline is not None]
        patience = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        answered, _ = self._ray.wait(asked, timeout=patience)
        ended = []
        for number, place in enumerate(self._places):
            outcome = None
            task = place.task
            if place.asked in answered:
                outcome = self._hear(place)
            elif place.deadline is not None and time.monotonic() >= place.deadline:
                outcome = too_slow(self._timeout_s, ready=place.stage == "running")
            if isinstance(outcome, Lost):
                self._ray.kill(place.actor)
                self._places[number] = self._new_place()
            if task is not None and outcome is not None:
                ended.append((task, outcome))
        return ended

    def close(self, *, at_once: bool) -> None:
        """End the workers; they have nothing to close that does not end with them."""
        del at_once
        for place in self._places:
            self._ray.kill(place.actor)
        self._ray.shutdown()

    def _new_place(self) -> _Place:
        actor = self._actor.remote()
        return _Place(actor, actor.host.remote())

    def _hear(self, place: _Place) -> EpisodeResult | Lost | None:
        """Take a worker's answer and ask for what comes next; what became of its episode, if it ended."""
        task = place.task
        try:
            answer = self._ray.get(place.asked)
        except self._ray.exceptions.RayError as error:
            if place.stage == "starting":
                self._failed_starts += 1
                if self._failed_starts >= _STARTS:
                    raise BraceError(
                        "Ray's workers do not start; is the same brace installed on every node? Ray says: "
                        f"{' '.join(str(error).split())}"
                    ) from error
            return Lost(f"the worker died (Ray: {type(error).__name__})")
        if isinstance(answer, Refused):
            raise BraceError(answer.message)
        place.asked = place.deadline = None
        if place.stage == "starting":
            self._failed_starts = 0
            # A node may have been declared with more cores than it has.
            place.host, cores = answer
            used = self._cores * Counter(other.host for other in self._places)[place.host]
            if (remark := remark_on(used, cores)) is not None:
                self._remark(remark)
            place.stage = "idle"
        elif isinstance(answer, Lost):
            return answer
        elif place.stage == "preparing" and task is not None:
            place.stage = "running"
            place.asked = place.actor.run.remote(task, self._configs[task.directory])
            place.deadline = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        elif task is not None:
            result: EpisodeResult = answer[0]
            add_shard(task.directory, answer[1])
            place.stage, place.task = "idle", None
            return result
        return None

    def _remark(self, remark: str) -> None:
        for directory in self._directories:
            add_remark(directory, remark)


def connect(address: str) -> Any:
    """The `ray` package, connected to the cluster at `address`, or an error that says what to do."""
    # Ray would otherwise send statistics of its use to its makers.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if address == "local":  # a cluster of our own, for nobody else
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise MissingExtraError("--ray", "ray") from error
    if address != "local":
        _probe(address)
    try:
        ray.init(address=address, log_to_driver=False, include_dashboard=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _no_answer(address, str(error)) from error
    return ray


def _probe(address: str) -> None:
    """Try the address in a process of its own: with a wrong one Ray waits for minutes, deaf to Ctrl-C."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    # A port that nobody listens on is refused at once, long before Ray would give up.
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=5.0).close()
        except OSError as error:
            raise _no_answer(address, error.strerror or str(error)) from error
    try:
        done = subprocess.run(  # noqa: S603 - our own program; the address is only an argument
            [sys.executable, "-W", "ignore", "-c", _PROBE, address],
            capture_output=True, text=True, timeout=_ANSWER_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _no_answer(address, f"no answer within {_ANSWER_S:g} s") from None
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise _no_answer(address, said[-1] if said else "no reason given")


def _no_answer(address: str, why: str) -> BraceError:
    return BraceError(
        f"no Ray cluster answers at {address}: {why}; start one with `ray start --head`, or run here "
        "without --ray"
    )
