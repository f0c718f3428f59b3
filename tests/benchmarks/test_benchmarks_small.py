"""The slow benchmarks in a small form: that they run, and that their figures can be read."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tiny_model import tiny

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


def run(script: str, *arguments: object, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / script), *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, timeout=280, check=False,
        env=os.environ | {"COLUMNS": "200", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_success_against_the_budget_and_its_plot(tmp_path: Path) -> None:
    run(
        "budgets.py", "babyai-v1", "--agents", 2, "--episodes", 1, "--budgets", 480, "--jobs", 1,
        "--methods", "model:erecap", "text:erecap", "--out", "table.csv", cwd=tmp_path,
    )  # fmt: skip
    with (tmp_path / "table.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert set(rows) == {"full", "model:erecap", "text:erecap"}
    assert all(row["n"] == "1" for row in rows.values())
    assert float(rows["model:erecap"]["tokens_after"]) <= 480 < float(rows["full"]["tokens_in"])
    run("budget_plot.py", "table.csv", "plot.png", cwd=tmp_path)
    assert (tmp_path / "plot.png").stat().st_size > 5000


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A tiny model and a few records to be found in `data`."""
    model, tokenizer = tiny()
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "data").mkdir()
    return tmp_path


def test_selectors_side_by_side(home: Path) -> None:
    run(
        "selection.py", "model", "--data", "data", "--sets", "keys", "--keep", 0.5, "--texts", 3,
        "--most-tokens", 600, "--rules", "recency", "attention", "--out", "table.csv", cwd=home,
    )  # fmt: skip
    with (home / "table.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["selector"] for row in rows] == ["whole", "recency", "attention"]
    assert float(rows[0]["divergence"]) == 0
    assert all(
        float(row["divergence"]) > 0 and float(row["kept"]) < float(rows[0]["kept"]) for row in rows[1:]
    )


def test_the_engine_beside_its_floors(tmp_path: Path) -> None:
    said = run(
        "gpu.py", "--shape", "tiny", "--tokens", 100, "--ratios", 1, 0.7, "--new", 3, "--repeats", 2,
        "--suffix", 20, "--growth", 3, "--calls", 4, cwd=tmp_path,
    )  # fmt: skip
    rows: dict[str, list[dict[str, Any]]] = {}
    for line in said.splitlines():
        row = json.loads(line)
        rows.setdefault(row["what"], []).append(row)
    counts = {"engine": 4, "memory": 2, "suffix": 2, "growth": 4, "tail": 2, "generate": 2, "same": 2}
    assert {what: len(found) for what, found in rows.items()} == counts
    assert all(row["prefill_ms"] > row["prefill_floor_ms"] > 0 for row in rows["engine"])
    assert rows["suffix"][0]["how"] == "extended"
    assert all(row["kept_by_both"] == 1 and row["same_token"] for row in rows["same"])
