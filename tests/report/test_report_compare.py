"""Comparing two runs: what changed is listed, noise is called noise, and what cannot be compared is not."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_kit import call, end, run_of

from brace.ledger import Record
from brace.ledger.differences import differences
from brace.ledger.intervals import Estimate
from brace.ledger.metrics import summarise
from brace.ledger.reader import Run
from brace.report.compare import changes_table, compare_table
from brace.report.rows import Cell, Table


def suite(
    directory: Path,
    *,
    seeds: range = range(12),
    slower: float = 0.0,
    call_fields: Any = None,
    **manifest: Any,
) -> Run:
    """One run of an episode a seed with three calls each; the seed alone decides what is noise."""
    records: list[Record] = []
    for episode, seed in enumerate(seeds):
        rng = random.Random(seed)
        for index in range(3):
            latency = rng.uniform(50, 150) + slower
            fields = {"latency_ms": latency, "missed": latency > 120, **(call_fields or {})}
            records.append(call(index, 4 * index, episode=episode, **fields))
        figures = {"spl": rng.random(), "collisions": float(seed % 2)}
        records.append(end(episode, seed=seed, success=seed % 3 > 0, wait_ms=slower, figures=figures))
    return run_of(directory, *records, seeds=tuple(seeds), **manifest)


def rows(table: Table) -> dict[Cell, tuple[Cell, ...]]:
    return {row.cells[0]: row.cells[1:] for row in table.rows}


def said(table: Table) -> str:
    return "\n".join(table.notes)


def test_what_is_slower_is_found_and_the_rest_is_noise(tmp_path: Path) -> None:
    a, b = suite(tmp_path / "a"), suite(tmp_path / "b", slower=40.0)
    found = rows(compare_table(a, b))
    shift = found["latency P50"][3]
    assert isinstance(shift, Estimate)
    assert (shift.value, shift.lo, shift.hi) == pytest.approx((40, 40, 40))
    verdicts = {name: cells[-1] for name, cells in found.items()}
    assert {name for name, verdict in verdicts.items() if verdict == "more"} == {
        "latency P50", "latency P95", "latency P99", "miss rate", "wait per episode",
    }  # fmt: skip
    assert {name for name, verdict in verdicts.items() if verdict == "no difference shown"} == {
        "success", "calls per episode", "tokens in", "tokens after", "churn", "steps per episode",
        "spl per episode", "collisions per episode",
    }  # fmt: skip
    assert rows(compare_table(b, a))["latency P50"][-1] == "less"


def test_both_columns_are_the_figures_of_the_runs(tmp_path: Path) -> None:
    a, b = suite(tmp_path / "a"), suite(tmp_path / "b", slower=9.0)
    for name, cells in rows(compare_table(a, b)).items():
        if name in ("success", "miss rate", "latency P95", "tokens after"):
            key = str(name).lower().replace(" ", "_")
            assert cells[1:3] == (summarise(a)[key], summarise(b)[key])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 60), st.integers(0, 8), st.integers(6, 12))
def test_a_difference_is_that_of_the_figures_over_shared_seeds(
    tmp_path_factory: pytest.TempPathFactory, slower: int, first: int, last: int
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    a = suite(folder / "a", seeds=range(0, last))
    b = suite(folder / "b", seeds=range(min(first, last - 1), 14), slower=slower)
    table = compare_table(a, b)
    for name, (_, before, after, difference, _) in rows(table).items():
        if isinstance(difference, Estimate) and difference.value is not None:
            assert isinstance(before, Estimate)
            assert isinstance(after, Estimate)
            assert before.value is not None
            assert after.value is not None
            assert difference.value == pytest.approx(after.value - before.value, abs=1e-9), name


def test_a_run_against_itself_shows_no_difference_anywhere(tmp_path: Path) -> None:
    run = suite(tmp_path)
    assert {estimate.value for estimate in differences(run, run).values()} == {0.0}
    assert {cells[-1] for cells in rows(compare_table(run, run)).values()} == {"no difference shown"}
    table = changes_table(run, run)
    assert not table.rows
    assert said(table) == "nothing: the same configuration, versions, commit and host"


def test_changes_are_listed_by_dotted_key(tmp_path: Path) -> None:
    a = suite(
        tmp_path / "a",
        config={"controller": {"cooldown": 6, "overrides": []}, "old": 1},
        versions={"numpy": "1"},
    )
    b = suite(
        tmp_path / "b", config={"controller": {"cooldown": 3, "overrides": ["hazard"]}}, commit="def+",
        versions={"numpy": "2"}, host={"cpu": "another"},
    )  # fmt: skip
    table = changes_table(a, b)
    assert [(row.group, *row.cells) for row in table.rows] == [
        ("configuration", "controller.cooldown", "6", "3"),
        ("configuration", "controller.overrides", "[]", '["hazard"]'),
        ("configuration", "old", "1", "(absent)"),
        ("code", "commit", "abc123", "def+"),
        ("versions", "numpy", "1", "2"),
        ("host", "cpu", "a cpu", "another"),
        ("host", "cores", "2", "(absent)"),
    ]
    assert "uncommitted changes" in said(table)


def test_other_seeds_are_left_out_and_named(tmp_path: Path) -> None:
    a, b = suite(tmp_path / "a", seeds=range(10)), suite(tmp_path / "b", seeds=range(4, 12))
    table = compare_table(a, b)
    assert "A has 0–9, B has 4–11; all figures are over the 6 they share (4–9)" in said(table)
    success = rows(table)["success"]
    assert [estimate.n for estimate in success[1:4] if isinstance(estimate, Estimate)] == [6, 6, 6]


def test_without_a_shared_seed_nothing_is_compared(tmp_path: Path) -> None:
    a, b = suite(tmp_path / "a", seeds=range(4)), suite(tmp_path / "b", seeds=range(10, 14), slower=90)
    table = compare_table(a, b)
    assert "they share none" in said(table)
    assert {cells[-1] for cells in rows(table).values()} == {"not compared"}
    assert rows(table)["success"][1] == summarise(a)["success"]


def test_kinds_of_latency_are_never_compared_with_each_other(tmp_path: Path) -> None:
    a, b = suite(tmp_path / "a"), suite(tmp_path / "b", slower=90, call_fields={"kind": "replayed"})
    table = compare_table(a, b)
    assert "the latency kinds differ (A: measured, B: replayed)" in said(table)
    found = rows(table)
    for name in ("latency P50", "latency P95", "latency P99", "miss rate", "wait per episode"):
        assert found[name][3:] == (None, "not compared")
    assert found["success"][-1] == "no difference shown"


def test_other_worlds_and_few_seeds_are_warned_of(tmp_path: Path) -> None:
    a = run_of(tmp_path / "a", call(), end(), seeds=(7,))
    b = run_of(tmp_path / "b", call(), end(world="v"), seeds=(7,))
    table = compare_table(a, b)
    assert "the worlds differ (A: w, B: v)" in said(table)
    assert "fewer than 6 shared seeds (1)" in said(table)


def test_a_handful_of_seeds_proves_nothing(tmp_path: Path) -> None:
    runs = [suite(tmp_path / name, seeds=range(5), slower=slower) for name, slower in (("a", 0), ("b", 90))]
    found = rows(compare_table(*runs))
    assert found["latency P50"][-1] == "too few seeds to tell"
    assert found["success"][-1] == "no difference shown"


def test_runs_without_calls_or_ends_are_compared_as_far_as_they_go(tmp_path: Path) -> None:
    whole = suite(tmp_path / "a", seeds=range(7, 14))
    idle = run_of(tmp_path / "b", *(end(episode) for episode in range(7)), seeds=tuple(range(7, 14)))
    found = rows(compare_table(whole, idle))
    assert found["calls per episode"][-1] == "less"
    assert found["latency P50"][-1] == "not compared"
    live = run_of(tmp_path / "c", call(), seeds=())
    assert "nothing is compared" in said(compare_table(live, whole))
    assert "nothing can be paired" in said(compare_table(live, live))


def test_every_form_holds_the_verdicts(tmp_path: Path) -> None:
    table = compare_table(suite(tmp_path / "a"), suite(tmp_path / "b", slower=40.0))
    for form in (table.markdown(), table.latex(), table.csv()):
        assert "no difference shown" in form
        assert "more" in form
    (line,) = [line for line in csv.DictReader(io.StringIO(table.csv())) if line["figure"] == "latency P50"]
    assert float(line["B − A lo"]) == pytest.approx(40)
