"""Episodes in worker processes: none is lost, none waits for ever, each has its own cores."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench_kit import ends, install, moody
from hypothesis import given
from hypothesis import strategies as st

from brace.bench import runner
from brace.bench.episodes import EpisodeResult, Lost, Task
from brace.bench.runner import prepare_run, run_on, run_tasks
from brace.bench.workers import own_cores, remark_on, share_out
from brace.errors import BraceError, ConfigError
from brace.ledger.manifest import read_manifest
from brace.ledger.reader import load_run
from brace.ledger.records import Episode
from brace.ledger.scan import finished_episodes
from brace.loop.config import load_config


@pytest.fixture(autouse=True)
def _moody_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")


@pytest.mark.parametrize(("jobs", "timeout_s"), [(1, 60.0), (2, None)])
@pytest.mark.parametrize("mood", ["die", "exit"])
def test_a_worker_that_dies_is_replaced_and_its_episode_tried_again(
    mood: str, jobs: int, timeout_s: float | None, tmp_path: Path
) -> None:
    (tmp_path / "once").mkdir()
    config = load_config(moody(moods={"2": mood}, once=str(tmp_path / "once")))
    run_tasks(prepare_run(config, tmp_path / "run", resume=False), jobs=jobs, timeout_s=timeout_s)
    assert ends(tmp_path / "run") == {0: 1, 1: 1, 2: 1, 3: 1}
    run = load_run(tmp_path / "run")
    assert dict(run.episodes.select("episode", "attempt").iter_rows()) == {0: 0, 1: 1, 2: 0, 3: 0}
    assert run.episodes["error"].to_list() == [""] * 4
    # The reader takes the finished attempt, and no step of the one that was killed.
    assert any("unfinished and left out: episode 1 attempt 0" in note for note in run.notes)
    assert run.steps.filter(episode=1)["t"].is_unique().all()
    assert set(run.steps.filter(episode=1)["attempt"]) == {1}


@pytest.mark.parametrize(
    ("mood", "timeout_s", "error"),
    [
        ("die", None, "the worker died (signal 9)"),
        ("exit", None, "the worker died (exit code 3)"),
        ("hang", 1.0, "timed out after 1 s"),
    ],
)
def test_what_fails_twice_is_in_the_ledger_with_its_reason(
    mood: str, timeout_s: float | None, error: str, tmp_path: Path
) -> None:
    config = load_config(moody(moods={"1": mood}))
    seen: list[tuple[int, str]] = []
    run_tasks(
        prepare_run(config, tmp_path / "run", resume=False),
        jobs=2, timeout_s=timeout_s,
        progress=lambda task, result: seen.append((task.episode, result.record.error)),
    )  # fmt: skip
    assert sorted(seen) == [(0, error), (1, ""), (2, ""), (3, "")]
    end = finished_episodes(tmp_path / "run")[0]
    assert (end.success, end.error, end.attempt, end.steps) == (False, error, 1, 6)
    run = load_run(tmp_path / "run")
    assert run.steps.filter(episode=0).height == 6
    assert prepare_run(config, tmp_path / "run", resume=True) == []


def test_a_hung_episode_is_tried_again_and_may_succeed(tmp_path: Path) -> None:
    (tmp_path / "once").mkdir()
    config = load_config(moody(episodes=2, moods={"1": "hang"}, once=str(tmp_path / "once")))
    run_tasks(prepare_run(config, tmp_path / "run", resume=False), timeout_s=2.0)
    assert {e: end.attempt for e, end in finished_episodes(tmp_path / "run").items()} == {0: 1, 1: 0}


def test_loading_what_a_run_needs_does_not_count_as_its_episodes_time(tmp_path: Path) -> None:
    config = load_config(moody(episodes=1, build_s=2.0))
    run_tasks(prepare_run(config, tmp_path / "run", resume=False), timeout_s=1.0)
    assert finished_episodes(tmp_path / "run")[0].error == ""


def test_a_timeout_must_be_a_time(tmp_path: Path) -> None:
    tasks = prepare_run(load_config(moody()), tmp_path / "run", resume=False)
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="must be > 0 seconds"):
            run_tasks(tasks, timeout_s=wrong)
    with pytest.raises(ValueError, match="watched"):
        run_tasks(tasks, timeout_s=1.0, watch=lambda world, step: None)


def test_an_error_raised_on_purpose_in_a_worker_ends_the_run_with_its_words(tmp_path: Path) -> None:
    config = load_config(moody() | {"planner": {"name": "fake-fixed", "options": {"prefill_ms": -1}}})
    tasks = prepare_run(config, tmp_path / "run", resume=False)
    with pytest.raises(BraceError, match="times must be 0 or more"):
        run_tasks(tasks, jobs=2)


def test_an_unknown_name_is_told_before_anything_is_written(tmp_path: Path) -> None:
    config = load_config(moody() | {"planner": "fake-fixd"})
    with pytest.raises(ConfigError, match="planner: unknown planner 'fake-fixd'; did you mean 'fake-fixed'"):
        prepare_run(config, tmp_path / "run", resume=False)
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_each_worker_has_cores_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if len(own_cores()) < 2:
        pytest.skip("needs two cores")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    (tmp_path / "notes").mkdir()
    before = os.sched_getaffinity(0)
    config = load_config(moody(notes=str(tmp_path / "notes")))
    run_tasks(prepare_run(config, tmp_path / "run", resume=False), jobs=2)
    each = len(own_cores()) // 2
    facts = [path.read_text() for path in (tmp_path / "notes").iterdir()]
    assert len(set(facts)) == 2
    assert {fact.rpartition(" ")[2] for fact in facts} == {str(each)}
    assert os.sched_getaffinity(0) == before
    assert "OMP_NUM_THREADS" not in os.environ
    assert load_run(tmp_path / "run").notes == []


def test_more_jobs_than_cores_reach_the_runs_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "own_cores", lambda: [frozenset({0})])
    run_tasks(prepare_run(load_config(moody()), tmp_path / "run", resume=False), jobs=2)
    said = "2 jobs on 1 core: measured latencies include waiting for one another"
    assert load_run(tmp_path / "run").notes == [said]
    assert read_manifest(tmp_path / "run").remarks == (said,)


@given(
    jobs=st.integers(1, 12),
    cores=st.lists(st.integers(1, 2), min_size=1, max_size=12),
)
def test_shares_are_apart_and_equal_or_the_run_says_so(jobs: int, cores: list[int]) -> None:
    numbered = iter(range(100))
    sets = [frozenset(next(numbered) for _ in range(threads)) for threads in cores]
    shares = share_out(jobs, sets)
    assert len(shares) == jobs
    if remark_on(jobs, len(cores)) is not None:
        assert all(share.cpus is None for share in shares)
    elif jobs > 1:
        given_out = [cpu for share in shares for cpu in share.cpus or ()]
        assert len(given_out) == len(set(given_out))
        assert len({share.threads for share in shares}) == 1
        for core in sets:  # no core is split between two
            assert sum(bool(core & (share.cpus or frozenset())) for share in shares) <= 1


class FakePool:
    """Loses what it is told to, `size` episodes at a time, in any order."""

    def __init__(self, losses: dict[int, int], size: int, order: st.DataObject) -> None:
        self.left, self.size, self.order = dict(losses), size, order
        self.running: list[Task] = []
        self.started: list[Task] = []
        self.closed: bool | None = None

    def free(self) -> bool:
        return len(self.running) < self.size

    def start(self, task: Task) -> None:
        self.running.append(task)
        self.started.append(task)

    def wait(self) -> list[tuple[Task, EpisodeResult | Lost]]:
        task = self.running.pop(self.order.draw(st.integers(0, len(self.running) - 1)))
        if self.left.get(task.episode, 0) > 0:
            self.left[task.episode] -= 1
            return [(task, Lost("gone"))]
        return [(task, result(task))]

    def close(self, *, at_once: bool) -> None:
        self.closed = at_once


def result(task: Task, error: str = "") -> EpisodeResult:
    end = Episode(episode=task.episode, attempt=task.attempt, seed=task.seed, world="w", steps=0, error=error)
    return EpisodeResult(end, (), 0)


@given(losses=st.dictionaries(st.integers(0, 7), st.integers(0, 3)), size=st.integers(1, 4), order=st.data())
def test_every_episode_ends_once_and_is_tried_twice_at_most(
    losses: dict[int, int], size: int, order: st.DataObject
) -> None:
    tasks = [Task(Path("run"), episode, episode, 2 * episode) for episode in range(8)]
    fake = FakePool(losses, size, order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "write_off", result)
        ended = {task.episode: outcome.record for task, outcome in run_on(fake, tasks)}
    assert len(ended) == len(tasks)
    for task in tasks:
        tries = [started.attempt for started in fake.started if started.episode == task.episode]
        lost = losses.get(task.episode, 0)
        assert tries == [task.attempt, task.attempt + 1][: 1 + min(lost, 1)]
        assert bool(ended[task.episode].error) == (lost > 1)
    assert fake.closed is False


def test_who_stops_listening_ends_the_workers_at_once() -> None:
    fake = FakePool({}, 1, None)  # type: ignore[arg-type]
    fake.wait = lambda: [(fake.running[0], result(fake.running.pop()))]  # type: ignore[method-assign]
    results = run_on(fake, [Task(Path("run"), episode, 0, 0) for episode in range(3)])
    next(results)
    results.close()
    assert fake.closed is True


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    config = load_config(moody(moods={"1": "hang"}, notes=str(tmp_path / "notes")))
    prepare_run(config, tmp_path / "run", resume=False)
    script = (
        "import sys; from pathlib import Path; from brace.bench.runner import *\n"
        "from brace.loop.config import load_config; from brace.ledger.manifest import read_manifest\n"
        "if __name__ == '__main__':\n"
        "    d = Path(sys.argv[1]); c = load_config(read_manifest(d).config)\n"
        "    run_tasks(prepare_run(c, d, resume=True), timeout_s=600)\n"
    )
    (tmp_path / "script.py").write_text(script)
    paths = os.pathsep.join([str(tmp_path / "site"), str(Path(__file__).parent), *sys.path])
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "run")],
        env=os.environ | {"PYTHONPATH": paths},
    )
    until(lambda: any((tmp_path / "notes").iterdir()))
    (worker,) = (int(path.name) for path in (tmp_path / "notes").iterdir())
    parent.kill()
    parent.wait()
    until(lambda: not alive(worker))


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def until(condition: object, seconds: float = 60.0) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
