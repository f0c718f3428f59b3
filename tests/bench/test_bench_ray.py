"""The same run on a Ray cluster: two nodes, workers that are killed, addresses that do not answer."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from bench_kit import ends, install, moody

from brace.bench import ray_pool
from brace.bench.episodes import EpisodeResult, Task
from brace.bench.runner import prepare_run, run_tasks
from brace.errors import BraceError, MissingExtraError
from brace.ledger.reader import load_run
from brace.ledger.scan import finished_episodes, shards
from brace.loop.config import load_config


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    install(folder)
    return folder


@pytest.fixture(autouse=True)
def known_here_too(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are checked where a run is prepared, so the world's package must be there, too."""
    monkeypatch.syspath_prepend(site)


@pytest.fixture(scope="module")
def cluster(site: Path) -> Iterator[Any]:
    """A cluster of two nodes with one core each, on the loopback interface."""
    pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        patch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
        # With this its nodes stay on loopback; the second line is for a process that has ray already.
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        patch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)
        cluster = importlib.import_module("ray.cluster_utils").Cluster()
        # Its sockets want a short path.
        with TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
            # Not the option temp_dir: the address goes under the default folder, which may not exist.
            patch.setenv("RAY_TMPDIR", folder)
            try:
                for _ in range(2):
                    cluster.add_node(num_cpus=1, include_dashboard=False)
                yield cluster
            finally:
                cluster.shutdown()


@pytest.fixture
def address(cluster: Any) -> str:
    return str(cluster.address)


@pytest.fixture
def no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Saves the seconds it takes to try an address that is known to answer."""
    monkeypatch.setattr(ray_pool, "_probe", lambda address: None)


def working(site: Path) -> list[int]:
    """The processes of this cluster that are in the middle of an episode."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            busy = (entry / "cmdline").read_bytes().startswith(b"ray::NodeWorker.run")
            if busy and str(site).encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_a_worker_killed_in_the_middle_of_an_episode_loses_nothing(
    address: str, site: Path, tmp_path: Path
) -> None:
    config = load_config(moody(episodes=8, step_s=0.003))
    killed: list[int] = []

    def kill_one(task: Task, result: EpisodeResult) -> None:
        end = time.monotonic() + 20
        while not killed and time.monotonic() < end:
            for pid in working(site)[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    run_tasks(prepare_run(config, tmp_path / "run", resume=False), ray=address, progress=kill_one)
    assert killed
    assert ends(tmp_path / "run") == dict.fromkeys(range(8), 1)
    run = load_run(tmp_path / "run")
    assert run.episodes["error"].to_list() == [""] * 8
    assert sorted(run.episodes["attempt"]) == [0] * 7 + [1]
    assert run.episodes["seed"].to_list() == list(config.seeds)
    assert run.steps.group_by("episode").len().height == 8
    assert any(note.startswith("run on Ray (2 nodes), 1 reserved core an episode") for note in run.notes)
    assert len(shards(tmp_path / "run")) == 8
    assert prepare_run(config, tmp_path / "run", resume=True) == []


@pytest.mark.usefixtures("no_probe")
def test_what_dies_or_hangs_twice_is_in_the_ledger(address: str, tmp_path: Path) -> None:
    config = load_config(moody(episodes=3, moods={"1": "die", "2": "hang"}))
    run_tasks(prepare_run(config, tmp_path / "run", resume=False), ray=address, timeout_s=2.0)
    found = finished_episodes(tmp_path / "run")
    assert {episode: (end.attempt, end.error) for episode, end in found.items()} == {
        0: (1, "the worker died (Ray: ActorDiedError)"),
        1: (1, "timed out after 2 s"),
        2: (0, ""),
    }
    assert [found[episode].success for episode in (0, 1)] == [False, False]


@pytest.mark.usefixtures("no_probe")
def test_a_configuration_that_cannot_work_ends_the_run_with_its_words(address: str, tmp_path: Path) -> None:
    config = load_config(moody() | {"planner": {"name": "fake-fixed", "options": {"prefill_ms": -1}}})
    tasks = prepare_run(config, tmp_path / "run", resume=False)
    with pytest.raises(BraceError, match="times must be 0 or more"):
        run_tasks(tasks, ray=address)


@pytest.mark.usefixtures("no_probe")
def test_a_lost_node_loses_nothing(cluster: Any, tmp_path: Path) -> None:
    """The last one with this cluster: it has one node less afterwards."""
    config = load_config(moody(episodes=5, step_s=0.003))
    nodes = set(cluster.worker_nodes)

    def lose_a_node(task: Task, result: EpisodeResult) -> None:
        while nodes:
            cluster.remove_node(nodes.pop(), allow_graceful=False)

    tasks = prepare_run(config, tmp_path / "run", resume=False)
    run_tasks(tasks, ray=cluster.address, progress=lose_a_node)
    assert not cluster.worker_nodes
    assert ends(tmp_path / "run") == dict.fromkeys(range(5), 1)
    assert load_run(tmp_path / "run").episodes["error"].to_list() == [""] * 5


def test_an_address_that_does_not_answer_is_said_in_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    tasks = prepare_run(load_config(moody()), tmp_path / "run", resume=False)
    monkeypatch.setattr(ray_pool, "_ANSWER_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        deaf = silent.getsockname()[1]
        with pytest.raises(BraceError, match=r"no Ray cluster answers at .*within 1 s.*without --ray"):
            run_tasks(tasks, ray=f"127.0.0.1:{deaf}")
    with pytest.raises(BraceError, match=r"no Ray cluster answers at .*refused; start one"):
        run_tasks(tasks, ray=f"127.0.0.1:{deaf}")
    assert finished_episodes(tmp_path / "run") == {}


def test_an_address_that_is_none_is_said(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    tasks = prepare_run(load_config(moody()), tmp_path / "run", resume=False)
    with pytest.raises(BraceError, match=r"no Ray cluster answers at nonsense: .*start one"):
        run_tasks(tasks, ray="nonsense")


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    tasks = prepare_run(load_config(moody()), tmp_path / "run", resume=False)
    monkeypatch.setattr("brace.bench.ray_pool.importlib.import_module", missing)
    with pytest.raises(MissingExtraError, match=r"pip install 'brace-replan\[ray\]'"):
        run_tasks(tasks, ray="127.0.0.1:6379")
