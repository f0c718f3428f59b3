"""A small version of the paper's controller sweep: its extremes, its livelock, and its table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from brace.bench.columns import Shown, cell_of
from brace.bench.plots import make_plot
from brace.bench.runner import prepare_run, run_tasks
from brace.bench.suite import Suite, load_suite
from brace.bench.table import finished_runs, suite_tables
from brace.ledger.intervals import Estimate, chance_of_deviance, rate_deviance

EPISODES = 12
AUTHORS, OURS = "authors__cooldown-0__commit-0__window-1", "brace__cooldown-0__commit-0__window-1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("proxy")


@pytest.fixture(scope="module")
def small(folder: Path) -> Suite:
    """The rows with the clearest figures, at a few episodes each."""
    whole = load_suite("proxy", "full", {"episodes": EPISODES})
    chosen = tuple(
        variant
        for variant in whole.variants
        if variant.labels["rules"].startswith("no-brace")
        or (variant.labels["rules"] in ("authors", "brace") and variant.slug.endswith("0__window-1"))
    )
    tasks = [task for v in chosen for task in prepare_run(v.config, folder / v.slug, resume=False)]
    run_tasks(tasks)
    return replace(whole, variants=chosen)


@pytest.fixture(scope="module")
def found(small: Suite, folder: Path) -> dict[str, Shown]:
    return finished_runs(small, folder)


def figure(found: dict[str, Shown], world: str, rules: str, name: str) -> float:
    cell = cell_of(name, found[f"world-{world}__rules-{rules}"])
    assert isinstance(cell, Estimate)
    assert cell.value is not None
    return cell.value


def test_the_suite_has_the_papers_rows_for_each_controller_and_world() -> None:
    suite = load_suite("proxy")
    windows = {
        (row["cooldown"], row["commit"], row["window"]) for row in suite.paper if row["rules"] == "authors"
    }
    assert len(windows) == 12
    assert len(suite.paper) == 13
    assert suite.paper_episodes == 60
    for world in ("published", "corrected"):
        for rules in ("authors", "brace", "brace-no-overrides"):
            knobs = [
                variant.config.controller
                for variant in suite.variants
                if (variant.labels["world"], variant.labels["rules"]) == (world, rules)
            ]
            assert {(one.cooldown, one.commit, one.window) for one in knobs} == windows
            assert len(knobs) == 12
    labels = [(variant.labels["world"], variant.labels["rules"]) for variant in suite.variants]
    assert labels.count(("published", "no-brace")) == labels.count(("corrected", "no-brace")) == 1
    assert len(labels) == 76
    assert all(variant.config.episodes == 60 for variant in suite.variants)


def test_the_authors_rules_win_at_one_and_no_brace_is_livelocked(found: dict[str, Shown]) -> None:
    assert figure(found, "published", "no-brace", "success") <= 0.35
    assert figure(found, "published", "no-brace", "calls_per_episode") > 100
    assert figure(found, "published", "no-brace", "figure.deadlocks") > 100
    assert figure(found, "published", AUTHORS, "success") >= 0.75
    assert figure(found, "published", AUTHORS, "calls_per_episode") < 30


def test_without_the_artefact_no_deadlock_is_left(found: dict[str, Shown]) -> None:
    assert figure(found, "corrected", "no-brace", "figure.deadlocks") == 0
    assert figure(found, "corrected", "no-brace", "calls_per_episode") < 50
    assert figure(found, "corrected", "no-brace-full-calls", "success") > 0.9


def test_ours_succeeds_on_both(found: dict[str, Shown]) -> None:
    for world in ("published", "corrected"):
        assert figure(found, world, OURS, "success") > 0.9


def test_one_table_holds_every_row_beside_the_papers_and_both_proxies(
    small: Suite, found: dict[str, Shown]
) -> None:
    (table,) = suite_tables(small, found)
    papers = [row for row in table.rows if row.cells[0] == "· paper"]
    authors = [one for one in small.variants if one.labels["rules"] == "authors"]
    published = [one for one in authors if one.labels["world"] == "published"]
    assert len(papers) == 1 + len(published)
    assert len(table.rows) == len(small.variants) + len(papers)
    assert 98.3 in papers[1].cells
    text = table.markdown()
    assert "Latencies are modelled." in text
    # What the livelock does is what a corrected row differs by from the published one.
    headers = [column.header for column in table.columns]
    change, word = headers.index("success to baseline"), headers.index("") - len(headers)
    by_group = dict(table.groups())
    assert {row.cells[word] for row in by_group["published"] if row not in papers} == {"baseline"}
    mended = next(row for row in by_group["corrected"] if row.cells[0] == "no-brace-full-calls")
    assert isinstance(mended.cells[change], Estimate)
    assert mended.cells[change].n == EPISODES


def test_ours_is_held_against_the_paper_row_by_row_and_all_together(
    small: Suite, found: dict[str, Shown]
) -> None:
    (table,) = suite_tables(small, found)
    judged = [
        row.cells[[c.header for c in table.columns].index("success as in the paper")] for row in table.rows
    ]
    words = [word for word in judged if word in ("yes", "no")]
    assert len(words) == len([row for row in table.rows if row.cells[0] == "· paper"])
    (line,) = (line for line in table.legend if "as in the paper" in line)
    assert f"{words.count('yes')} of {len(words)} rows; all rows together: deviance " in line
    assert "over its 60 episodes (chi-squared, 95 %)" in line


def test_the_joint_test_tells_agreement_from_disagreement() -> None:
    rates = [row["success"] for row in load_suite("proxy").paper]
    theirs = [round(0.6 * success) for success in rates]
    same = [rate_deviance(hits, 60, hits, 60) for hits in theirs]
    assert same == pytest.approx([0] * 13, abs=1e-6)
    assert chance_of_deviance(sum(same), 13) > 0.99
    other = [rate_deviance(hits, 60, 30, 60) for hits in theirs]
    assert chance_of_deviance(sum(other), 13) < 1e-6
    assert other[1] > 3.841


@pytest.mark.parametrize(
    ("deviance", "degrees", "chance"),
    # As tabulated: the 5 % points of chi-squared, and the joint test of the thirteen rows.
    [(3.841, 1, 0.05), (5.991, 2, 0.05), (22.362, 13, 0.05), (10.2, 13, 0.68), (0, 0, 1)],
)
def test_the_chance_of_a_deviance_is_that_of_chi_squared(
    deviance: float, degrees: int, chance: float
) -> None:
    assert chance_of_deviance(deviance, degrees) == pytest.approx(
        chance, abs=0.0005 if degrees < 13 else 0.005
    )


def test_its_plots_show_runs_without_windows_as_level_lines(small: Suite, found: dict[str, Shown]) -> None:
    every = [(variant, found[variant.slug]) for variant in small.variants]
    plots = {spec.name: make_plot(spec, every) for spec in small.plots}
    authors = plots["authors"]
    assert authors is not None
    picture, said = authors.drawn()
    assert [axes.get_ylabel() for axes in picture.axes] == ["success, %", "deadlocks / episode"]
    level = [line for line in picture.axes[0].lines if list(line.get_xdata()) == [0, 1]]
    assert len(level) == 1
    assert level[0].get_ydata()[0] == 100 * figure(found, "published", "no-brace", "success")
    assert any("Rings: the paper" in line for line in said)
