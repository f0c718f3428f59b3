"""Suites: they load in every form, say what they mean, run, and report what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from brace.bench.columns import column_of
from brace.bench.pages import film_run, film_suite
from brace.bench.runner import prepare_run, run_tasks
from brace.bench.suite import load_suite, make_suite, suite_files
from brace.bench.table import finished_runs, missing, suite_tables
from brace.cli import app
from brace.errors import ConfigError, LedgerError, UnknownNameError
from brace.ledger.reader import load_run
from brace.registry import suites, worlds
from brace.report.frames import episodes_with_frames, frames_of

SUITES = list(suite_files())
OWN_BASE = ("proxy", "references", "latency")
each_suite = pytest.mark.parametrize("name", SUITES)
SMALL: dict[str, Any] = {
    "name": "small",
    "title": "Small",
    "set": {"world": "proxy-v2", "planner": "proxy-symbolic", "episodes": 3, "loop.clock": "modelled",
            "loop.model": {"fixed_ms": 5, "per_token_ms": 0}, "modes.full.slo_ms": 50,
            "modes.full.template": "proxy-full"},
    "axes": {"window": {"none": {}, "wide": {"controller.cooldown": 8}}},
    "columns": ["success", "latency_p95", "miss_rate", "calls_per_episode", "bounds"],
    "baseline": {"window": "none"},
    "paper": [{"window": "wide", "success": 12.5}],
    "plots": [
        {"name": "over", "title": "Over the window", "kind": "line", "x": "window", "figures": ["success"]},
        {"name": "each", "kind": "calls", "figures": ["tokens_in", "latency_ms"], "by": ["window"],
         "fit": True},
        {"name": "wait", "kind": "bar", "x": "window", "figures": ["wait_per_episode"], "by": ["window"]},
    ],
    "quick": {"episodes": 2},
}  # fmt: skip
PLOT: dict[str, Any] = {"name": "p", "kind": "line", "figures": ["success"], "x": "window"}
TWO_AXES: dict[str, Any] = {
    "window": {"none": {}, "wide": {"controller.cooldown": 8}},
    "seed": {"1": {"seed": 1}, "2": {"seed": 2}},
}


def test_the_paper_s_comparisons_are_there() -> None:
    wanted = {
        "snapshot",
        "variants",
        "budget-match",
        "harder",
        "growth",
        "stability",
        "triggers",
        "phases",
        "ratios",
        "proxy",
    }
    assert wanted <= set(SUITES)


@each_suite
def test_every_form_is_a_part_of_the_full_one(name: str) -> None:
    full = {tuple(variant.labels.items()) for variant in load_suite(name).variants}
    for form in ("quick", "smoke"):
        part = load_suite(name, form).variants  # type: ignore[arg-type]
        assert part
        assert {tuple(variant.labels.items()) for variant in part} <= full
        assert sum(variant.config.episodes for variant in part) < sum(
            variant.config.episodes for variant in load_suite(name).variants
        )


@each_suite
def test_every_row_of_the_paper_stands_beside_one_of_ours(name: str) -> None:
    suite = load_suite(name)
    shown = [suite.reported(variant) for variant in suite.variants]
    for row in suite.paper:
        figures = {key: value for key, value in row.items() if key in suite.columns}
        assert figures, f"{row} reports nothing"
        assert any(figures.items() <= reported.items() for reported in shown), f"{row} is of no run"


@each_suite
def test_every_row_has_a_baseline_or_is_one(name: str) -> None:
    suite = load_suite(name)
    for variant in suite.variants:
        other = suite.baseline_of(variant)
        is_one = all(variant.labels[axis] == label for axis, label in suite.baseline.items())
        assert is_one == (other is None)
        if other is not None:
            assert other.config.seeds == variant.config.seeds
            # Unless worlds are what is compared, the baseline plays in the same one.
            assert (other.config.world == variant.config.world) != ("world" in suite.baseline)


def test_the_slo_of_a_world_is_a_fixed_multiple_of_its_period() -> None:
    periods = {"babyai-v1": 2, "handover-v1": 20, "drones-v1": 10}
    for name in ("snapshot", "variants", "harder", "triggers", "phases", "growth"):
        for variant in load_suite(name).variants:
            world = variant.config.world.name
            period = worlds.get(world).dt
            for mode in variant.config.modes.values():
                assert mode.slo_ms == pytest.approx(1e3 * periods[world] * period)


def test_no_brace_is_what_the_design_says() -> None:
    for variant in load_suite("variants").variants:
        if variant.labels["method"] == "No BRACE":
            config = variant.config
            assert (config.controller.cooldown, config.controller.commit) == (0, 0)
            assert config.controller.overrides == ()
            assert not config.loop.enforce_deadline
            assert config.budget.mode == "full"
            assert config.modes["full"].tokens is None
            assert config.modes["full"].compress.name == "none"


def test_every_column_of_every_suite_has_a_heading() -> None:
    for name in SUITES:
        for column in load_suite(name).columns:
            assert column_of(column).header


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"colums": []}, r"unknown key 'colums'.*columns"),
        ({"columns": ["succes"]}, r"succes.*success"),
        ({"baseline": {"windw": "none"}}, r"windw.*window"),
        ({"paper": [{"window": "wide", "miss_rat": 1}]}, r"miss_rat.*miss_rate"),
        ({"axes": {"method": ["No BRACES"]}}, r"No BRACES.*No BRACE"),
        ({"axes": {"metod": ["No BRACE"]}}, r"metod.*method"),
        ({"axes": {}}, "two runs|no runs|baseline"),
        ({"quick": {"only": {"window": ["wid"]}}}, r"wid.*wide"),
        ({"audit": "phase"}, r"phase.*phases"),
        ({"columns": ["paper.succes"]}, r"succes.*success"),
        ({"columns": ["paper.success"]}, "needs `paper_episodes`"),
        ({"plots": [PLOT | {"knd": "line"}]}, r"unknown key 'knd'.*kind"),
        ({"plots": [{"name": "p", "kind": "line"}]}, "'p': needs figures"),
        ({"plots": [PLOT | {"kind": "lin"}]}, r"lin.*line"),
        ({"plots": [PLOT | {"figures": ["succes"]}]}, r"succes.*success"),
        ({"plots": [PLOT | {"kind": "calls", "figures": ["latency"]}]}, r"latency.*latency_ms"),
        ({"plots": [PLOT | {"x": "windw"}]}, r"windw.*window"),
        ({"plots": [PLOT | {"only": {"window": ["wid"]}}]}, r"wid.*wide"),
    ],
)
def test_mistakes_are_answered_with_what_was_meant(change: dict[str, Any], says: str) -> None:
    with pytest.raises((ConfigError, UnknownNameError), match=says):
        make_suite(SMALL | change, "quick", {})


def test_two_runs_that_share_a_place_in_a_plot_are_refused() -> None:
    plots = [{"name": "p", "kind": "line", "figures": ["success"], "x": "window", "by": ["window"]}]
    with pytest.raises(ConfigError, match="two runs share a place; add an axis to `by`"):
        make_suite(SMALL | {"axes": TWO_AXES, "plots": plots}, "full", {})
    (drawn,) = make_suite(SMALL | {"axes": TWO_AXES, "plots": [PLOT]}, "full", {}).plots
    assert drawn.figures == ("success",)


def test_a_suite_file_can_be_known_by_a_name(small: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"suite 'snapshot' is registered twice.*choose another name"):
        suites.add("snapshot", small)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suites, "_things", dict(suites._things))
        for _ in range(2):  # the same file again is no other suite
            suites.add("mine", small)
        assert load_suite("mine").title == "Small"
        assert "mine" in suite_files()
        with pytest.raises(ConfigError, match="twice"):
            suites.add("mine", tmp_path / "other.yaml")
        with pytest.raises(UnknownNameError, match=r"min'.*did you mean 'mine'"):
            load_suite("min")


def test_a_base_of_its_own_replaces_what_suites_share() -> None:
    own = {"world": "proxy-v2", "planner": "proxy-symbolic", "episodes": 3, "seed": 5}
    (first, _) = make_suite(SMALL | {"base": own, "set": {}}, "full", {}).variants
    assert first.config.seed == 5
    assert (
        first.config.controller.relax_budget
        != make_suite(SMALL, "full", {}).variants[0].config.controller.relax_budget
    )
    assert list(first.config.modes) == ["pruned"]


def test_parts_can_be_named_in_blocks_too() -> None:
    blocks = [{"axes": {"method": ["No BRACE"]}}, {"axes": {"method": ["BRACE"]}, "grid": {"seed": [1, 2]}}]
    base = {"world": "proxy-v2", "planner": "proxy-symbolic", "modes": {"full": {}, "pruned": {}}}
    data = {"name": "b", "base": base, "blocks": blocks, "baseline": {"method": "No BRACE"}}
    with pytest.raises(ConfigError, match="set must stand in its blocks"):
        make_suite(data | {"set": {}}, "full", {})
    suite = make_suite(data, "full", {})
    assert [one.labels for one in suite.variants] == [
        {"method": "No BRACE"},
        {"method": "BRACE", "seed": "1"},
        {"method": "BRACE", "seed": "2"},
    ]
    first, *others = suite.variants
    # Who has no place on an axis is the baseline of all that have one.
    assert [suite.baseline_of(one) for one in suite.variants] == [None, first, first]
    assert not first.config.loop.enforce_deadline
    assert all(one.config.loop.enforce_deadline for one in others)


def told(episodes: int, success: float, folder: Path) -> str:
    """The line beneath the table that holds our success against a paper's."""
    data = SMALL | {
        "columns": ["success", "paper.success"],
        "paper": [{"window": "wide", "success": success}], "paper_episodes": episodes,
    }  # fmt: skip
    suite = make_suite(data, "full", {})
    (table, *_) = suite_tables(suite, finished_runs(suite, folder))
    assert [row.cells[3] for row in table.rows] == [None, "yes" if "1 of 1" in table.legend[-1] else "no", ""]
    return table.legend[-1]


def test_a_rate_is_held_against_the_papers_with_its_number_of_episodes(tmp_path: Path) -> None:
    suite = make_suite(SMALL, "full", {})
    for variant in suite.variants:
        run_tasks(prepare_run(variant.config, tmp_path / variant.slug, resume=False))
    ours = finished_runs(suite, tmp_path)["window-wide"].summary["success"].value
    assert ours is not None
    assert "0 of 1 rows" not in told(60, 100 * ours, tmp_path)
    assert "deviance 0.0, p = 1" in told(60, 100 * ours, tmp_path)
    assert "0 of 1 rows" in told(1000, 100 * (1 - ours), tmp_path)


def test_an_unknown_suite_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"snapshoot.*snapshot"):
        load_suite("snapshoot")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(SMALL), encoding="utf-8")
    return path


def brace(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_a_suite_runs_prints_and_writes(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = brace("bench", small, "--out", out)
    assert "baseline" in said
    assert "· paper" in said
    assert "12.5" in said
    assert "no difference shown" in said or "less" in said
    assert "held" in said
    assert "partial" not in said
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Small" in page
    assert "brace bench small" in page
    assert (out / "table.csv").read_text(encoding="utf-8").startswith("window,n,")
    for name in ("over.png", "over.svg", "each.png"):
        assert (out / name).stat().st_size > 5_000
    assert page.count('aria-label="Over the window"') == 2
    assert "One episode of each run, seed 930" in page
    for shape, sign in (("markdown", "| window |"), ("latex", r"\toprule"), ("csv", "window,n,")):
        assert sign in brace("bench", small, "--out", out, "--only-report", "--format", shape)


def test_a_run_that_is_there_is_not_overwritten_and_can_be_resumed(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    brace("bench", small, "--quick", "--out", out)
    with pytest.raises(LedgerError, match="--resume"):
        brace("bench", small, "--quick", "--out", out)
    assert "page:" in brace("bench", small, "--quick", "--out", out, "--resume")


def test_partial_results_are_reported_as_partial(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    brace("bench", small, "--quick", "--out", out)
    suite = load_suite(str(small))
    runs = finished_runs(suite, out)
    assert missing(suite, runs) == "partial: 2 of 6 episodes are not finished"
    assert suite_tables(suite, runs)[0].notes == (missing(suite, runs),)
    assert "partial: 2 of 6" in brace("bench", small, "--out", out, "--only-report")


def test_without_a_finished_episode_there_is_nothing_to_report(small: Path, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no finished episode"):
        brace("bench", small, "--out", tmp_path / "nothing", "--only-report")


def test_the_list_names_them_all() -> None:
    said = brace("bench", "list")
    assert all(name in said for name in SUITES)


@each_suite
def test_its_smoke_runs_with_real_worlds_and_planners(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = brace("bench", name, "--smoke", "--out", out)
    suite = load_suite(name, "smoke")
    runs = finished_runs(suite, out)
    assert len(runs) == len(suite.variants)
    assert missing(suite, runs) == ""
    assert not any(error for shown in runs.values() for error in shown.run.episodes["error"])
    assert "page:" in said
    for variant in suite.variants:
        manifest = json.loads((out / variant.slug / "manifest.json").read_text(encoding="utf-8"))
        assert manifest["config"]["seed"] == (1 if name in OWN_BASE else 930_001)


def test_an_episode_is_filmed_afterwards_by_replaying_it(tmp_path: Path) -> None:
    settings = {"axes": {"window": {"none": {}}}, "columns": ["success"], "baseline": {}, "paper": []}
    world = {"world": {"name": "babyai-v1", "options": {"agents": 1}}, "planner": "reader", "episodes": 2}
    suite = make_suite(SMALL | settings | {"set": world}, "full", {})
    (variant,) = suite.variants
    directory = tmp_path / variant.slug
    run_tasks(prepare_run(variant.config, directory, resume=False))
    assert list(film_suite(suite, tmp_path)) == []
    before = load_run(directory)
    (filmed,) = episodes_with_frames(directory)
    frames = frames_of(directory, filmed)
    assert 4 <= len(frames) <= 8
    assert film_run(directory, filmed) == "", "filmed already"
    assert "not finished" in film_run(directory, 7)
    assert load_run(directory).steps.equals(before.steps)


def test_a_world_without_pictures_says_so(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "draws no pictures" in brace("bench", small, "--quick", "--out", out)


@pytest.mark.timeout(900)
def test_the_quick_snapshot_plays_every_world_with_the_embedded_planner(tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = brace("bench", "snapshot", "--quick", "--out", out)
    runs = {slug: shown.run for slug, shown in finished_runs(load_suite("snapshot", "quick"), out).items()}
    assert {run.episodes["world"][0] for run in runs.values()} == {"babyai-v1", "handover-v1", "drones-v1"}
    assert all(run.calls.height for run in runs.values())
    assert all((run.calls["kind"] == "measured").all() for run in runs.values())
    assert "no frames" not in said
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/jpeg;base64,") >= 24
    assert all(world in page for world in ("babyai-v1", "handover-v1", "drones-v1"))
