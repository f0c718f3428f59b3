"""Ctrl-C, a second command on the same directory, and what is shown meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from brace.cli.live import pace
from brace.ledger.reader import load_run
from brace.ledger.records import Episode
from brace.ledger.scan import finished_episodes, read_records

SLOW: dict[str, Any] = {
    "name": "slow",
    "world": "proxy-v2",
    "planner": {"name": "fake-fixed", "options": {"prefill_ms": 15, "decode_ms": 0}},
    "episodes": 6,
    "controller": {"cooldown": 3, "commit": 1, "period": 5, "progress_epsilon": 0.005},
    "modes": {"pruned": {"tokens": 480, "slo_ms": 200, "compress": "recency"}},
    "loop": {"while_thinking": "hold"},
}


def start(*arguments: object, cwd: Path) -> subprocess.Popen[str]:
    """The command in a process group of its own, as a terminal starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "brace", *map(str, arguments)],
        cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=os.environ | {"COLUMNS": "160"},
    )  # fmt: skip


def wait_for_an_episode(directory: Path, running: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60
    while not finished_episodes(directory):
        assert running.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "slow.yaml").write_text(yaml.safe_dump(SLOW))
    return tmp_path


@pytest.mark.parametrize("options", [(), ("--jobs", 2), ("--timeout", 60)], ids=str)
def test_ctrl_c_leaves_a_run_that_can_be_gone_on_with(options: tuple[object, ...], home: Path) -> None:
    running = start("run", "slow.yaml", "--out", "run", *options, cwd=home)
    wait_for_an_episode(home / "run", running)
    os.killpg(running.pid, signal.SIGINT)
    said, complaints = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "of 6 episodes; they are kept: go on with the same command and --resume" in said
    assert complaints == ""
    kept = finished_episodes(home / "run")
    assert 0 < len(kept) < 6
    load_run(home / "run")

    again = start("run", "slow.yaml", "--out", "run", *options, "--resume", cwd=home)
    said, complaints = again.communicate(timeout=60)
    assert again.returncode == 0, complaints
    assert kept.items() <= finished_episodes(home / "run").items()
    ends = Counter(record.episode for record in read_records(home / "run") if isinstance(record, Episode))
    assert ends == dict.fromkeys(range(6), 1)
    assert load_run(home / "run").episodes["episode"].to_list() == list(range(6))


def test_a_second_command_on_the_same_directory_is_refused(home: Path) -> None:
    grid = {"name": "g", "base": SLOW, "grid": {"controller.cooldown": [3, 4]}}
    (home / "grid.yaml").write_text(yaml.safe_dump(grid))
    first = start("bench", "grid.yaml", "--out", "sweep", cwd=home)
    wait_for_an_episode(home / "sweep" / "cooldown-3", first)
    for second in (
        start("bench", "grid.yaml", "--out", "sweep", "--resume", cwd=home),
        start("run", "slow.yaml", "--out", "sweep/cooldown-4", "--resume", cwd=home),
    ):
        _, complaint = second.communicate(timeout=60)
        assert second.returncode == 2
        assert f"is in use by process {first.pid} on" in " ".join(complaint.split())
    os.killpg(first.pid, signal.SIGINT)
    first.communicate(timeout=30)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--timeout", 0), "must be > 0 seconds"),
        (("--jobs", 0), "--jobs"),
        (("--ray", "127.0.0.1:1"), "no Ray cluster answers at 127.0.0.1:1"),
    ],
)
def test_options_that_cannot_work_are_said(options: tuple[object, ...], message: str, home: Path) -> None:
    if options[0] == "--ray":
        pytest.importorskip("ray")
    running = start("run", "slow.yaml", "--out", "run", *options, cwd=home)
    _, complaint = running.communicate(timeout=60)
    assert running.returncode == 2
    assert message in " ".join(complaint.split())
    assert "Traceback" not in complaint


def test_before_the_first_episode_nobody_knows_the_pace() -> None:
    assert pace(0, 10, 3.0) == "– a minute, – left"
    assert pace(4, 10, 120.0) == "2 a minute, 0:03:00 left"


@given(done=st.integers(1, 10_000), more=st.integers(0, 10_000), seconds=st.floats(0.01, 1e6))
def test_the_time_left_is_that_of_the_rate(done: int, more: int, seconds: float) -> None:
    rate, left = pace(done, done + more, seconds).removesuffix(" left").split(" a minute, ")
    assert float(rate) == pytest.approx(60 * done / seconds, rel=0.01)
    assert left == str(timedelta(seconds=round(more / (done / seconds))))
