"""The `brace` command as a user meets it: what works, and what a mistake is answered with."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

QUICK: dict[str, Any] = {
    "name": "quick",
    "world": "proxy-v2",
    "planner": {"name": "fake-fixed", "options": {"prefill_ms": 2, "decode_ms": 0}},
    "episodes": 2,
    "controller": {"cooldown": 6, "commit": 1, "period": 10, "progress_epsilon": 0.005, "overrides": []},
    "modes": {"pruned": {"tokens": 480, "slo_ms": 50, "compress": "recency"}},
    "loop": {"while_thinking": "continue"},
}


def brace(*arguments: object, cwd: Path, expect: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "brace", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, timeout=240, check=False,
        env=os.environ | {"COLUMNS": "160"},
    )  # fmt: skip
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a configuration and one finished run."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "quick.yaml").write_text(yaml.safe_dump(QUICK))
    brace("run", "quick.yaml", "--out", "runs/a", cwd=folder)
    return folder


def test_run_writes_a_ledger_and_says_what_next(home: Path) -> None:
    said = brace("run", "quick.yaml", "--out", "runs/b", "-n", 1, "-s", "controller.cooldown=5", cwd=home)
    assert "brace report runs/b" in said
    manifest = yaml.safe_load((home / "runs/b/manifest.json").read_text())
    assert manifest["config"]["controller"]["cooldown"] == 5
    assert len(manifest["seeds"]) == 1


def test_run_refuses_to_overwrite_and_resumes(home: Path) -> None:
    assert "--resume" in brace("run", "quick.yaml", "--out", "runs/a", cwd=home, expect=2)
    said = brace("run", "quick.yaml", "--out", "runs/a", "--resume", cwd=home)
    assert "all 2 episodes are finished" in said


def test_report_prints_figures_and_writes_a_page(home: Path) -> None:
    said = brace("report", "runs/a", cwd=home)
    assert "miss" in said
    page = (home / "runs/a/report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "quick" in page


def test_report_compares_runs(home: Path) -> None:
    brace("run", "quick.yaml", "--out", "runs/c", "-s", "name=other", cwd=home)
    said = brace("report", "runs/a", "runs/c", "--html", "both.html", cwd=home)
    assert "quick" in said
    assert "other" in said
    assert (home / "both.html").exists()


def test_compare_tells_what_changed_and_what_is_noise(home: Path) -> None:
    brace("run", "quick.yaml", "--out", "runs/d", "-s", "controller.cooldown=3", cwd=home)
    said = brace("compare", "runs/a", "runs/d", cwd=home)
    assert "controller.cooldown" in said
    assert "no difference shown" in said
    assert said.index("What changed") < said.index("latency P95")
    assert brace("compare", "runs/a", "runs/d", "--format", "latex", cwd=home).count(r"\toprule") == 2
    assert "| figure | unit |" in brace("compare", "runs/a", "runs/d", "--format", "markdown", cwd=home)
    assert brace("compare", "runs/a", "runs/d", "--format", "csv", cwd=home).startswith("figure,unit,A,A lo")
    assert "not a run directory" in brace("compare", "runs/a", "nowhere", cwd=home, expect=2)


def test_audit_shows_the_worst_calls_and_the_bounds(home: Path) -> None:
    said = brace("audit", "runs/a", "--worst", 3, cwd=home)
    assert "anti-churn bounds" in said
    assert "kept" in said


def test_replay_decides_the_same_and_notices_a_changed_log(home: Path, tmp_path: Path) -> None:
    assert "decisions are the same" in brace("replay", "runs/a", cwd=home)
    (shard,) = (home / "runs/a").glob("shard-*.jsonl")
    forged = tmp_path / "forged"
    forged.mkdir()
    (forged / "manifest.json").write_bytes((home / "runs/a/manifest.json").read_bytes())
    lines = shard.read_text().splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if '"gate":"cooldown"' in line)
    lines[first] = lines[first].replace('"gate":"cooldown"', '"gate":"commit"')
    (forged / shard.name).write_text("".join(lines))
    said = brace("replay", forged, cwd=home, expect=1)
    assert "gate was 'commit', is now 'cooldown'" in said


def test_export_writes_parquet(home: Path) -> None:
    brace("export", "runs/a", "--parquet", "parquet", cwd=home)
    calls = pl.read_parquet(home / "parquet/calls.parquet")
    assert len(calls) > 0
    assert {"status", "latency_ms", "tokens_after"} <= set(calls.columns)


def test_bench_runs_a_grid_from_yaml_and_prints_a_row_for_each(home: Path) -> None:
    grid = {"name": "windows", "base": QUICK | {"episodes": 1}, "grid": {"controller.cooldown": [0, 4]}}
    (home / "grid.yaml").write_text(yaml.safe_dump(grid))
    said = brace("bench", "grid.yaml", "--jobs", 2, cwd=home)
    assert "cooldown" in said
    assert [line.split()[0] for line in said.splitlines() if line.startswith((" 0 ", " 4 "))] == ["0", "4"]
    assert (home / "runs/windows/cooldown-4/manifest.json").exists()
    brace("bench", "grid.yaml", cwd=home, expect=2)
    brace("bench", "grid.yaml", "--resume", cwd=home)
    assert "several kinds" not in said


def test_bench_lists_the_suites(home: Path) -> None:
    said = brace("bench", "list", cwd=home)
    assert all(name in said for name in ("proxy", "references", "latency", "snapshot"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "rehersal"), "did you mean 'rehearsal'"),
        (("run", "missing.yaml"), "cannot read missing.yaml"),
        (("bench", "prox"), "did you mean 'proxy'"),
        (("run", "quick.yaml", "-s", "controller.cooldwn=3"), "did you mean 'cooldown'"),
        (("run", "quick.yaml", "-s", "controller.cooldown=-1"), "must be 0 or more"),
        (("run", "quick.yaml", "-s", "controller.window=0"), "must be 1 or more"),
        (("run", "quick.yaml", "-s", "controller.cooldown=soon"), "controller.cooldown"),
        (("run", "quick.yaml", "-s", "modes.pruned.slo_ms=0"), "must be > 0"),
        (("run", "quick.yaml", "-s", "modes.pruned.tokens=20"), "the prompt template alone has"),
        (("run", "quick.yaml", "-s", "modes.pruned.compress=recent"), "did you mean 'recency'"),
        (("run", "quick.yaml", "-s", "planner.name=fake-fixd"), "did you mean 'fake-fixed'"),
        (("run", "quick.yaml", "-s", "planner.options={prefil_ms: 3}"), "did you mean 'prefill_ms'"),
        (("run", "quick.yaml", "-s", "world=proxy-v3"), "did you mean 'proxy-v"),
        (("run", "quick.yaml", "-s", "budget.policy=fixd"), "did you mean 'fixed'"),
        (("run", "quick.yaml", "-s", "budget.mode=prunde"), "did you mean 'pruned'"),
        (("run", "quick.yaml", "-s", "episodes=0"), "must be 1 or more"),
        (("run", "quick.yaml", "-s", "loop.clock=replay"), "loop.recording"),
        (("run", "quick.yaml", "-s", "nonsense"), "write key=value"),
        (("run", "quick.yaml", "--out", "quick.yaml/run"), "cannot write the run directory"),
        (("report", "."), "not a run directory"),
        (("audit", "nowhere"), "not a run directory"),
        (("replay", "nowhere"), "not a run directory"),
    ],
)
def test_a_mistake_gets_a_clear_answer_and_no_traceback(
    home: Path, arguments: tuple[object, ...], message: str, tmp_path: Path
) -> None:
    if arguments[0] == "run" and "--out" not in arguments:
        arguments = (*arguments, "--out", tmp_path / "run")
    assert message in " ".join(brace(*arguments, cwd=home, expect=2).split())


def test_a_world_that_raises_mid_episode_is_an_error_and_loses_nothing(home: Path) -> None:
    """The planner's plan has no number where the world needs one: the world raises in apply()."""
    (home / "broken.py").write_text(
        "from brace.registry import worlds\n"
        "from brace.worlds.proxy.world import ProxyWorld\n"
        "@worlds.register('broken-v1')\n"
        "class Broken(ProxyWorld):\n"
        "    def __init__(self): super().__init__(corrected=True)\n"
        "    def step(self, *, hold):\n"
        "        if self._step == 7: raise RuntimeError('motor on fire')\n"
        "        super().step(hold=hold)\n"
        "from brace.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "broken.py", "run", "quick.yaml", "-s", "world=broken-v1", "-o", "runs/broken"],
        cwd=home, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "motor on fire" in done.stderr
    (shard,) = (home / "runs/broken").glob("shard-*.jsonl")
    assert shard.read_text().count('"type":"step"') == 16


def test_a_missing_extra_is_named_in_the_message(home: Path) -> None:
    (home / "bare.py").write_text(
        "import sys\nsys.modules['minigrid'] = None\nfrom brace.cli import main\n"
        "sys.argv = ['brace', 'run', 'babyai-v1', '--out', 'runs/bare']\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "bare.py"], cwd=home, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert "pip install 'brace-replan[babyai]'" in done.stderr


def test_the_version_is_the_package_s(home: Path) -> None:
    assert brace("--version", cwd=home).strip() == f"brace {metadata.version('brace-replan')}"


def test_a_newer_ledger_is_refused(home: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    newer.mkdir()
    manifest = (home / "runs/a/manifest.json").read_text().replace('"schema": 1', '"schema": 99')
    (newer / "manifest.json").write_text(manifest)
    assert "has schema 99" in brace("report", newer, cwd=home, expect=2)


def test_help_has_examples(home: Path) -> None:
    for command in ("run", "bench", "compare", "report", "audit", "replay", "export", "demo"):
        assert f"brace {command}" in brace(command, "--help", cwd=home)
