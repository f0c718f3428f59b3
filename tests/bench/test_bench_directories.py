"""Run directories as they are found: in use, half-written, of someone else."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brace.bench.runner import prepare_run, run_tasks
from brace.errors import LedgerError
from brace.ledger import LedgerWriter, Manifest, add_remark, read_manifest, write_manifest
from brace.ledger.lock import LOCK, lock_runs
from brace.ledger.reader import load_run
from brace.ledger.records import Episode
from brace.ledger.scan import finished_episodes, shards
from brace.ledger.writer import add_shard
from brace.loop.config import RunConfig, load_config

HOLDER = (
    "import sys; from pathlib import Path; from brace.ledger.lock import lock_runs\n"
    "with lock_runs([Path(sys.argv[1])]): print('held', flush=True); sys.stdin.read()\n"
)


def config(**changes: Any) -> RunConfig:
    base = {"world": "proxy-v2", "planner": "proxy-symbolic", "episodes": 3}
    return load_config(base | changes)


def hold(directory: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(directory)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_directory_in_use_is_refused_by_name_of_its_user_until_that_one_is_gone(tmp_path: Path) -> None:
    holder = hold(tmp_path)
    with pytest.raises(LedgerError, match=rf"in use by process {holder.pid} on .*choose another --out"):
        prepare_run(config(), tmp_path, resume=False)
    assert not (tmp_path / "manifest.json").exists()
    holder.kill()  # a dead process leaves no stale lock
    holder.communicate()
    tasks = prepare_run(config(), tmp_path, resume=False)
    holder = hold(tmp_path)
    with pytest.raises(LedgerError, match="in use"):
        run_tasks(tasks)
    holder.communicate()
    run_tasks(tasks)
    assert len(finished_episodes(tmp_path)) == 3
    assert not (tmp_path / LOCK).exists()


def test_a_thread_may_ask_again_and_another_may_not(tmp_path: Path) -> None:
    answers: list[str] = []

    def other() -> None:
        try:
            prepare_run(config(), tmp_path, resume=True)
        except LedgerError as error:
            answers.append(str(error))

    with lock_runs([tmp_path]):
        run_tasks(prepare_run(config(), tmp_path, resume=False))
        assert (tmp_path / LOCK).exists()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(answers) == 1
    assert f"process {os.getpid()}" in answers[0]
    assert prepare_run(config(), tmp_path, resume=True) == []


def test_when_one_of_several_is_in_use_none_stays_held(tmp_path: Path) -> None:
    holder = hold(tmp_path / "b")
    with pytest.raises(LedgerError, match="in use"), lock_runs([tmp_path / "a", tmp_path / "b"]):
        raise AssertionError
    hold(tmp_path / "a").communicate()
    holder.communicate()


def test_records_without_a_manifest_are_not_taken_for_ours(tmp_path: Path) -> None:
    with LedgerWriter(tmp_path) as ledger:
        ledger.write(Episode(episode=0, seed=1, world="elsewhere-v1", success=True, steps=1))
    for resume in (False, True):
        with pytest.raises(LedgerError, match=r"no manifest.json.*choose another --out"):
            prepare_run(config(), tmp_path, resume=resume)
    assert not (tmp_path / "manifest.json").exists()


@pytest.mark.parametrize("content", ["", "{", '{"name": "a web app", "icons": []}', '{"schema": 1}', "[]"])
def test_a_damaged_or_foreign_manifest_is_said(content: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(LedgerError, match=r"--resume, or choose another --out"):
        prepare_run(config(), tmp_path, resume=False)
    with pytest.raises(LedgerError, match=r"manifest.json is damaged or not brace's.*choose another"):
        prepare_run(config(), tmp_path, resume=True)


@pytest.mark.parametrize(
    "other",
    [{"seed": 2}, {"episodes": 4}, {"planner": "fake-fixed"}, {"world": "proxy-v1"}],
    ids=lambda other: next(iter(other)),
)
def test_another_configuration_is_refused(other: dict[str, Any], tmp_path: Path) -> None:
    prepare_run(config(), tmp_path, resume=False)
    with pytest.raises(LedgerError, match=r"another configuration; choose another --out"):
        prepare_run(config(**other), tmp_path, resume=True)


def test_a_manifest_with_keys_this_brace_does_not_know_is_another_configuration(tmp_path: Path) -> None:
    facts = {"name": "x", "created": 1.0, "versions": {}, "host": {}, "seeds": config().seeds}
    write_manifest(tmp_path, Manifest(config={"world": "proxy-v2", "colour": "red"}, **facts))
    with pytest.raises(LedgerError, match="another configuration"):
        prepare_run(config(), tmp_path, resume=True)


@pytest.mark.parametrize(("episode", "seed"), [(7, 8), (0, 99)])
def test_a_foreign_shard_among_ours_is_refused(episode: int, seed: int, tmp_path: Path) -> None:
    prepare_run(config(), tmp_path, resume=False)
    with LedgerWriter(tmp_path) as ledger:
        ledger.write(Episode(episode=episode, seed=seed, world="proxy-v2", success=True, steps=1))
    with pytest.raises(LedgerError, match=rf"episode {episode} with seed {seed}, which is not of this run"):
        prepare_run(config(), tmp_path, resume=True)


def test_a_newer_shard_is_refused(tmp_path: Path) -> None:
    prepare_run(config(), tmp_path, resume=False)
    (tmp_path / "shard-00000.jsonl").write_text('{"type":"shard","schema":99,"writer":"x","at":1.0}\n')
    with pytest.raises(LedgerError, match="schema 99"):
        prepare_run(config(), tmp_path, resume=True)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("finished") / "run"
    run_tasks(prepare_run(config(), directory, resume=False))
    return directory


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fraction=st.floats(0, 1))
def test_cut_anywhere_a_ledger_can_be_gone_on_with_and_every_episode_is_there_once(
    finished: Path, tmp_path_factory: pytest.TempPathFactory, fraction: float
) -> None:
    directory = tmp_path_factory.mktemp("cut")
    write_manifest(directory, read_manifest(finished))
    (shard,) = shards(finished)
    whole = shard.read_bytes()
    (directory / shard.name).write_bytes(whole[: int(fraction * len(whole))])
    before = finished_episodes(directory)
    run_tasks(prepare_run(config(), directory, resume=True))
    assert before.items() <= finished_episodes(directory).items()
    run = load_run(directory)
    assert run.episodes["episode"].to_list() == [0, 1, 2]
    assert not run.steps.select("episode", "t").is_duplicated().any()


def test_a_remark_reaches_the_reader_once_and_old_manifests_load(finished: Path, tmp_path: Path) -> None:
    old = (finished / "manifest.json").read_text().replace('"remarks": []', '"newer": 1')
    assert '"remarks"' not in old
    (tmp_path / "manifest.json").write_text(old)
    assert read_manifest(tmp_path).remarks == ()
    for _ in range(2):
        add_remark(tmp_path, "it rained")
    assert load_run(tmp_path).notes == ["it rained"]
    assert prepare_run(config(), tmp_path, resume=True)


def test_a_shard_written_elsewhere_is_added_under_a_name_of_its_own(finished: Path, tmp_path: Path) -> None:
    write_manifest(tmp_path, read_manifest(finished))
    (shard,) = shards(finished)
    names = [add_shard(tmp_path, shard.read_bytes()).name for _ in range(2)]
    assert names == ["shard-00000.jsonl", "shard-00001.jsonl"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", *names]
    assert load_run(tmp_path).episodes.height == 3


def test_a_shard_that_cannot_be_written_leaves_nothing_half(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    write_manifest(tmp_path, read_manifest(finished))
    (shard,) = shards(finished)
    with monkeypatch.context() as patch:
        patch.setattr("brace.ledger.writer.os.fsync", full)
        with pytest.raises(LedgerError, match="No space left"):
            add_shard(tmp_path, shard.read_bytes())
    assert finished_episodes(tmp_path) == {}
    assert load_run(tmp_path).notes == []
    assert not list(tmp_path.glob(".shard*"))
