"""A small version of the paper's controller sweep: its extremes, its livelock, and its table."""

from __future__ import annotations

from pathlib import Path

import pytest
from brace.bench.proxy_sweep import PAPER, Row, joint_deviance, read_row
from brace.bench.tables import print_table
from rich.console import Console

from brace.bench.grid import Sweep, load_sweep
from brace.bench.runner import prepare_run, run_tasks
from brace.ledger.intervals import Estimate, rate

EPISODES = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("proxy")


@pytest.fixture(scope="module")
def small(folder: Path) -> Sweep:
    """The rows with the clearest figures, at a few episodes each."""
    whole = load_sweep("proxy", {"episodes": EPISODES})
    chosen = [
        variant
        for variant in whole.variants
        if variant.labels["rules"].startswith("no-brace")
        or (variant.labels["rules"] in ("authors", "brace") and variant.slug.endswith("0__window-1"))
    ]
    tasks = [task for v in chosen for task in prepare_run(v.config, folder / v.slug, resume=False)]
    run_tasks(tasks)
    return Sweep(whole.name, chosen, whole.table)


def rows(small: Sweep, folder: Path) -> dict[tuple[str, str, object], Row]:
    read = [read_row(variant, folder) for variant in small.variants]
    return {(row.world, row.rules, row.windows): row for row in read}


def test_the_sweep_has_the_papers_rows_for_each_controller_and_world() -> None:
    variants = load_sweep("proxy").variants
    windows = {key for key in PAPER if key is not None}
    for world in ("published", "corrected"):
        for rules in ("authors", "brace", "brace-no-overrides"):
            found = {
                (v.config.controller.cooldown, v.config.controller.commit, v.config.controller.window)
                for v in variants
                if (v.labels["world"], v.labels["rules"]) == (world, rules)
            }
            assert found == windows
        assert sum((v.labels["world"], v.labels["rules"]) == (world, "no-brace") for v in variants) == 1
    assert all(v.config.episodes == 60 for v in variants)
    assert len(PAPER) == 13


def test_the_authors_rules_win_at_one_and_no_brace_is_livelocked(small: Sweep, folder: Path) -> None:
    found = rows(small, folder)
    no_brace, best = found["published", "no-brace", None], found["published", "authors", (0, 0, 1)]
    assert no_brace.success.value is not None
    assert no_brace.success.value <= 0.35
    assert (no_brace.calls.value or 0) > 100
    assert (no_brace.deadlocks.value or 0) > 100
    assert (best.success.value or 0) >= 0.75
    assert (best.calls.value or 0) < 30


def test_without_the_artefact_no_deadlock_is_left(small: Sweep, folder: Path) -> None:
    found = rows(small, folder)
    mended = found["corrected", "no-brace", None]
    assert mended.deadlocks.value == 0
    assert (mended.calls.value or 0) < 50
    assert (found["corrected", "no-brace-full-calls", None].success.value or 0) > 0.9


def test_ours_succeeds_on_both(small: Sweep, folder: Path) -> None:
    found = rows(small, folder)
    for world in ("published", "corrected"):
        assert (found[world, "brace", (0, 0, 1)].success.value or 0) > 0.9


def test_the_table_prints_every_row_beside_the_papers(small: Sweep, folder: Path) -> None:
    console = Console(width=160, record=True, quiet=False)
    with console.capture() as captured:
        print_table(small, folder, console)
    text = captured.get()
    assert "98.3" in text
    assert "modelled, not measured" in text
    assert "livelock" in text
    assert len((folder / "table.csv").read_text().splitlines()) == 1 + len(small.variants)


def row(success: Estimate, windows: tuple[int, int, int]) -> Row:
    return Row("published", "authors", windows, success, *[success] * 5)


def test_the_joint_test_tells_agreement_from_disagreement() -> None:
    same = [row(rate(round(p[0] * 0.6), 60, "episodes"), w) for w, p in PAPER.items() if w is not None]
    deviance, chance = joint_deviance(same)
    assert deviance == pytest.approx(0, abs=1e-6)
    assert chance > 0.99
    other = [row(rate(30, 60, "episodes"), w) for w in PAPER if w is not None]
    assert joint_deviance(other)[1] < 1e-6
    assert [r.as_in_the_paper for r in same] == [True] * 12
    assert other[0].as_in_the_paper is False
