"""Kill a run at any moment: nothing finished is repeated or lost, and the figures come out the same."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from brace.bench.runner import prepare_run, run_tasks
from brace.errors import LedgerError
from brace.ledger.manifest import read_manifest
from brace.ledger.metrics import summarise
from brace.ledger.reader import load_run
from brace.ledger.scan import finished_episodes
from brace.loop.clocks import DivergedError
from brace.loop.config import RunConfig, load_config

BASE: dict[str, Any] = {
    "world": "proxy-v2",
    "planner": {"name": "fake-heavy-tail", "options": {"median_ms": 2.0, "sigma": 1.0}},
    "episodes": 6,
    "controller": {"period": 10, "cooldown": 3, "commit": 2, "progress_epsilon": 0.005},
    "modes": {
        "full": {"tokens": 800, "slo_ms": 8, "compress": "structured"},
        "pruned": {"tokens": 480, "slo_ms": 5, "compress": "random"},
    },
    "budget": {"mode": "pruned", "escalate": ["deadlock"]},
}


def config(**loop: Any) -> RunConfig:
    return load_config(BASE | {"loop": {"while_thinking": "continue"} | loop})


def run(chosen: RunConfig, directory: Path, *, resume: bool = False, jobs: int = 1) -> None:
    run_tasks(prepare_run(chosen, directory, resume=resume), jobs=jobs)


def figures(directory: Path) -> dict[str, str]:
    """Everything the tables print, and what each call did."""
    loaded = load_run(directory)
    calls = loaded.calls.sort("episode", "index").drop("at", "attempt")
    return {name: str(value) for name, value in summarise(loaded).items()} | {
        "calls in detail": str(calls.to_dicts()),
        "steps in detail": str(loaded.steps.sort("episode", "t").drop("attempt").to_dicts()),
    }


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("recorded") / "run"
    run(config(), directory)
    return directory


@pytest.fixture(scope="module")
def unbroken(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    directory = tmp_path_factory.mktemp("unbroken") / "run"
    run(config(clock="replay", recording=str(recording)), directory)
    return figures(directory)


def test_a_replayed_run_repeats_its_recording(recording: Path, unbroken: dict[str, str]) -> None:
    recorded = figures(recording)
    differing = {name for name in recorded if recorded[name] != unbroken.get(name)}
    # The kind of latency is the one thing that must differ, and with it whole call records.
    assert differing == {"calls in detail"}
    assert recorded["calls in detail"].replace("'measured'", "'replayed'") == unbroken["calls in detail"]
    assert "'status': 'cut'" in recorded["calls in detail"], "the recording should hold misses"


@pytest.mark.parametrize("seed", range(6))
def test_killed_anywhere_and_resumed_gives_the_same_figures(
    seed: int, recording: Path, unbroken: dict[str, str], tmp_path: Path
) -> None:
    """Kill -9 at a random moment, up to three times; then finish."""
    draw = random.Random(seed)
    directory = tmp_path / "run"
    chosen = config(clock="replay", recording=str(recording))
    prepare_run(chosen, directory, resume=False)
    script = (
        "import sys; from pathlib import Path; from brace.bench.runner import *; "
        "from brace.loop.config import load_config; from brace.ledger.manifest import read_manifest; "
        "d = Path(sys.argv[1]); c = load_config(read_manifest(d).config); "
        "tasks = prepare_run(c, d, resume=True); print('ready', flush=True); run_tasks(tasks)"
    )
    finished: dict[int, Any] = {}
    for _ in range(draw.randint(1, 3)):
        victim = subprocess.Popen(
            [sys.executable, "-c", script, str(directory)], stdout=subprocess.PIPE, text=True
        )
        assert victim.stdout is not None
        assert victim.stdout.readline() == "ready\n"
        time.sleep(draw.uniform(0.0, 0.4))
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        still = finished_episodes(directory)
        assert finished.items() <= still.items(), "a finished episode was lost or run again"
        finished = still
    run(chosen, directory, resume=True)
    assert figures(directory) == unbroken


def test_a_torn_last_record_is_said_and_its_episode_is_run_again(recording: Path, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    chosen = config(clock="replay", recording=str(recording))
    run(chosen, directory)
    whole = figures(directory)
    (shard,) = directory.glob("shard-*.jsonl")
    shard.write_bytes(shard.read_bytes()[:-25])
    assert len(finished_episodes(directory)) == 5
    assert any("torn" in note for note in load_run(directory).notes)
    run(chosen, directory, resume=True)
    assert figures(directory) == whole


def test_two_processes_give_the_same_figures_as_one(
    recording: Path, unbroken: dict[str, str], tmp_path: Path
) -> None:
    directory = tmp_path / "run"
    run(config(clock="replay", recording=str(recording)), directory, jobs=2)
    assert figures(directory) == unbroken
    assert len(list(directory.glob("shard-*.jsonl"))) == 2


def test_a_run_directory_is_not_overwritten_or_mixed(recording: Path) -> None:
    with pytest.raises(LedgerError, match="--resume"):
        prepare_run(config(), recording, resume=False)
    with pytest.raises(LedgerError, match="another configuration"):
        prepare_run(config(while_thinking="hold"), recording, resume=True)
    assert prepare_run(config(), recording, resume=True) == []


def test_a_directory_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LedgerError, match="cannot write the run directory"):
        prepare_run(config(), tmp_path / "file" / "run", resume=False)


def test_a_replay_that_diverges_says_where(recording: Path, tmp_path: Path) -> None:
    data = BASE | {"loop": {"while_thinking": "continue", "clock": "replay", "recording": str(recording)}}
    data = data | {"modes": data["modes"] | {"pruned": {"tokens": 300, "slo_ms": 5, "compress": "random"}}}
    with pytest.raises(DivergedError, match=r"call 0 of episode 0 differs"):
        run(load_config(data), tmp_path / "run")


def test_the_manifest_tells_how_to_run_it_again(recording: Path) -> None:
    manifest = read_manifest(recording)
    assert load_config(manifest.config) == config()
    assert manifest.seeds == config().seeds
    assert {"python", "brace-replan"} <= manifest.versions.keys()
    assert {"cpu", "cores"} <= manifest.host.keys()
