"""The page of a suite: whole, light, harmless, and honest about what is missing."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle
from page_kit import Outline, small_run, small_suite
from report_kit import call, end, phases, run_of

from brace.errors import BraceError
from brace.ledger import Record, Step
from brace.ledger.intervals import rate
from brace.report import style, suite_plots
from brace.report.frames import save_frame
from brace.report.rows import Column, Row, Table
from brace.report.suite_page import Filters, SuiteView, write_suite_page
from brace.report.suite_plots import Mark, Panel, Plot, Trace


def page(view: SuiteView, folder: Path) -> str:
    return write_suite_page(view, folder / "out" / "suite.html").read_text(encoding="utf-8")


def test_it_holds_tables_figures_timelines_frames_and_configs(tmp_path: Path) -> None:
    view = small_suite(tmp_path)
    text = page(view, tmp_path)
    outline = Outline(text)
    assert not outline.open
    assert "<h1>A suite</h1>" in text
    assert "<p>What is compared.</p><p>How.</p>" in text
    assert "4 runs, 8 finished episodes, 16 planner calls." in text
    assert "<h3>Main table</h3>" in text
    # A CDF, a scatter and phases a world, the misses of all, a timeline a run.
    assert text.count('role="img"') == 3 * 2 + 1 + 4 == text.count("made by <code>brace bench it</code>")
    assert outline.tags["img"] == 4 * 3
    assert text.count("Config of ") == 4
    assert "episode 1 (seed 8): no success" in text
    assert "Partial" not in text


def test_it_asks_for_nothing_and_has_no_script(tmp_path: Path) -> None:
    text = page(small_suite(tmp_path), tmp_path)
    outline = Outline(text)
    assert not {"link", "script", "iframe", "object"} & outline.tags.keys()
    targets = [value for name, value in outline.attributes if name.endswith(("href", "src"))]
    assert all(target.startswith(("#", "data:image/jpeg;base64,")) for target in targets)
    assert not re.search(r"https?://|@import|url\((?!#)", text)
    ids = [value for name, value in outline.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in text


def test_the_same_suite_gives_the_same_bytes(tmp_path: Path) -> None:
    view = small_suite(tmp_path)
    assert page(view, tmp_path / "a") == page(view, tmp_path / "b")


def test_what_is_missing_is_said_at_the_top(tmp_path: Path) -> None:
    text = page(small_suite(tmp_path, partial="12 of 60 episodes are not finished"), tmp_path)
    assert text.index("Partial: 12 of 60") < text.index("What is compared.")


@pytest.mark.parametrize(
    "hostile", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</style>"]
)
def test_nothing_that_is_said_becomes_markup(hostile: str, tmp_path: Path) -> None:
    pages = []
    for words in ("harmless", hostile):
        folder = tmp_path / str(len(pages))
        runs = {
            f"{words}{n}": run_of(
                folder / str(n),
                Step(episode=0, t=0, triggers=(words,), replan=True),
                call(planner=words, phases=phases(1, 2, 3)),
                end(world=words, figures={words: 1.0}),
                config={words: words}, commit=words, host={"cpu": words}, command=(words,), seeds=(7,),
            )
            for n in range(2)
        }  # fmt: skip
        table = Table(
            words, (Column(words), Column("x")), (Row((words, f"{words}0"), words),), (words,), (words,)
        )
        labels = {label: {"world": label, words: label, "B": label} for label in runs}
        view = SuiteView(words, (words,), runs, labels, (table,), words, words)
        pages.append(Outline(page(view, folder)))
    assert pages[1].tags == pages[0].tags
    assert not pages[1].open
    assert hostile in pages[1].text


def test_two_dozen_runs_stay_a_light_page(tmp_path: Path) -> None:
    rng = random.Random(4)
    coarse = np.random.default_rng(4).integers(0, 255, (12, 16, 3), np.uint8).repeat(20, 0).repeat(20, 1)
    runs, labels, folders = {}, {}, {}
    for world in "abcd":
        for method in "uvwxyz":
            label = world + method
            records: list[Record] = []
            for episode in range(4):
                for t in range(0, 400, 2):
                    records.append(Step(episode=episode, t=t, triggers=("failure",), replan=t % 4 == 0))
                    if t % 4 == 0:
                        ms = rng.lognormvariate(4, 1)
                        records.append(call(t // 4, t, episode=episode, latency_ms=ms, missed=ms > 120))
                records.append(end(episode, world=world))
            folders[label] = tmp_path / label
            runs[label] = run_of(folders[label], *records, seeds=(7, 8, 9, 10))
            labels[label] = {"world": world, "method": method}
            for step in range(10):
                save_frame(folders[label], 2, step, coarse)
    text = page(SuiteView("t", (), runs, labels, (), "c", folders=folders), tmp_path)
    assert len(text.encode()) < 3_000_000
    assert text.count("<img") >= 24


def test_frames_that_are_too_heavy_are_left_out_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brace.report.suite_page.FRAMES_WEIGHT", 10)
    text = page(small_suite(tmp_path), tmp_path)
    assert "<img" not in text
    assert text.count("too large to be shown") == 4


def test_filters_class_runs_rows_columns_and_series(tmp_path: Path) -> None:
    text = page(small_suite(tmp_path), tmp_path)
    assert '<tr class="group of-0-0">' in text
    assert '<tr class="of-0-1 of-1-0"><th scope="row">No BRACE</th>' in text
    assert '<figure class="wide of-0-1 of-1-1">' in text
    assert '<g class="of-0-0 of-1-1">' in text
    assert text.count('type="checkbox"') == text.count(":not(:checked)) .of-") == 4


def test_an_axis_with_one_value_has_no_filter(tmp_path: Path) -> None:
    filters = Filters({"a": {"world": "w", "method": "x"}, "b": {"world": "w", "method": "y"}})
    assert filters.at({"world": "w", "method": "y"}) == filters.of("y") == filters.of("b") == "of-0-1"
    assert "world" not in filters.form()
    assert Filters({"a": {"world": "w"}}).form() == ""
    assert filters.of("something else") == ""
    assert filters.of("x", "y") == "of-0-0"


def test_without_a_world_all_runs_share_the_figures(tmp_path: Path) -> None:
    runs = {label: small_run(tmp_path / label, "w", 90) for label in "ab"}
    text = page(SuiteView("t", (), runs, {label: {} for label in runs}, (), "c"), tmp_path)
    assert text.count('role="img"') == 3 + 1 + 2
    assert "<form" not in text


@pytest.mark.parametrize("axis", ["budget", "B"])
def test_success_is_drawn_against_budgets_where_there_are_any(axis: str, tmp_path: Path) -> None:
    runs = {b: small_run(tmp_path / b, "w", 90) for b in ("full", "512", "64")}
    text = page(SuiteView("t", (), runs, {b: {axis: b} for b in runs}, (), "c"), tmp_path)
    assert "Success against budget" in text
    ticks = re.findall(r">(64|512|full)</text>", text[text.index('id="budgets"') :])
    assert ticks[:3] == ["64", "512", "full"]


def test_runs_without_calls_or_steps_say_so(tmp_path: Path) -> None:
    empty = {"idle": run_of(tmp_path / "a", end()), "void": run_of(tmp_path / "b")}
    labels = {"idle": {"world": "w", "method": "x"}, "void": {"world": "w", "method": "y"}}
    view = SuiteView("t", (), empty, labels, (), "c")
    text = page(view, tmp_path)
    assert "void: no step, call or episode was recorded" in text
    assert "no finished episode" in text
    assert "Misses across worlds" not in text
    whole = {**empty, "whole": small_run(tmp_path / "c", "v", 90)}
    text = page(
        replace(view, runs=whole, labels={**labels, "whole": {"world": "v", "method": "x"}}), tmp_path
    )
    assert "no call with an SLO: w, x; w, y" in text


def test_bars_are_the_rates_with_their_intervals() -> None:
    marks = [Mark("maze", "a", 0, 0, rate(1, 4, "calls")), Mark("arm", "a", 0, 1, rate(3, 4, "calls"))]
    _, axes = style.blank(2)
    assert suite_plots.bars(axes, marks, "missed, %") == []
    widths = [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)]
    assert widths == [25.0, 75.0]
    lo, hi = marks[0].figure.lo, marks[0].figure.hi
    assert lo is not None
    assert hi is not None
    assert list(np.asarray(axes.lines[0].get_xdata())) == [100 * lo, 100 * hi]
    assert "a: 75 [30.1, 95.4]" in [text.get_text() for text in axes.texts]


def line_of(marks: list[Mark], **more: Any) -> Plot:
    draw = partial(suite_plots.lines, marks=marks, places=["1", "2"], labels=("w", "success, %"))
    return Plot("over-w", "Success over w", (Panel(2.0, draw),), **more)


def test_lines_go_through_their_figures_and_runs_without_a_place_are_level() -> None:
    marks = [
        Mark("2", "ours", 1, 1, rate(3, 4, "episodes"), 50.0),
        Mark("1", "ours", 1, 0, rate(1, 4, "episodes"), 20.0),
        Mark("", "none", 0, 2, rate(2, 4, "episodes")),
    ]
    picture, said = line_of(marks).drawn()
    (axes,) = picture.axes
    drawn = {line.get_gid(): line for line in axes.lines if len(np.asarray(line.get_xdata())) == 2}
    assert [list(np.asarray(line.get_ydata())) for line in axes.lines if line.get_gid() == "line-1"] == [
        [25.0, 75.0],
        [20.0, 50.0],
    ]
    assert list(np.asarray(drawn["line-0"].get_ydata())) == [50.0, 50.0]
    assert [words.get_text() for words in axes.get_legend().get_texts()] == ["ours", "none", "the paper"]
    assert said == []
    nothing = Mark("1", "ours", 0, 0, rate(0, 0, "episodes"))
    assert line_of([nothing]).drawn()[1] == ["no run has this figure"]


def test_the_calls_of_an_episode_stand_at_their_steps_beside_the_fitted_growth() -> None:
    traces = [Trace("K 4", 0, 0, [0, 5, 10], [100, 210, 300], (100.0, 20.0)), Trace("K 1", 1, 1, [0], [90])]
    _, axes = style.blank(2)
    assert suite_plots.calls(axes, traces, "tokens") == []
    lines = [(list(np.asarray(o.get_xdata())), list(np.asarray(o.get_ydata()))) for o in axes.lines]
    assert lines == [([0, 5, 10], [100, 210, 300]), ([0, 10], [100.0, 300.0]), ([0], [90])]
    _, empty = style.blank(2)
    assert suite_plots.calls(empty, [], "tokens") == ["no call"]


def test_a_suites_own_plots_are_on_its_page_and_obey_its_filters(tmp_path: Path) -> None:
    marks = [Mark("1", "BRACE", 0, 1, rate(1, 4, "episodes"))]
    plot = line_of(marks, lines=("How to read it.",), places={0: {"method": "BRACE"}})
    text = page(small_suite(tmp_path, plots=(plot,)), tmp_path)
    shown = text[text.index('id="plots"') : text.index('id="latency"')]
    assert shown.count('role="img"') == 1
    assert "Success over w" in shown
    assert "How to read it." in shown
    assert '<g class="of-0-0 of-1-1">' in shown, "the point of the run"
    assert '<g class="of-1-1">' in shown, "the line of its method"


def test_plots_are_written_as_files_that_are_read_on_white(tmp_path: Path) -> None:
    plot = line_of([Mark("1", "a", 0, 0, rate(1, 4, "episodes"))])
    written = suite_plots.write_plots([plot], tmp_path / "new")
    assert [path.name for path in written] == ["over-w.png", "over-w.svg"]
    drawing = written[1].read_text(encoding="utf-8")
    assert "Success over w" in drawing
    assert style.INK not in re.sub(
        r"<g id=\"(patch|matplotlib|xtick|ytick).*?</g>", "", drawing, flags=re.DOTALL
    )
    again = suite_plots.write_plots([plot], tmp_path / "again")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in written]
    with pytest.raises(BraceError, match="cannot write the plot"):
        suite_plots.write_plots([plot], written[0])


def test_a_world_with_too_many_runs_has_no_figure_of_single_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brace.report.suite_page.MOST_RUNS", 1)
    text = page(small_suite(tmp_path), tmp_path)
    assert text.count('role="img"') == 4, "the timelines"
    assert "With more than 1 runs in a world" in text


def test_timelines_are_one_a_world_and_first_other_axis_where_there_is_no_method(tmp_path: Path) -> None:
    runs = {f"{rules}{w}": small_run(tmp_path / f"{rules}{w}", "w", 90) for rules in "ab" for w in "12"}
    labels = {label: {"world": "w", "rules": label[0], "w": label[1]} for label in runs}
    text = page(SuiteView("t", (), runs, labels, (), "c"), tmp_path)
    assert text.count('aria-label="Timeline of') == 2


def test_a_suite_that_cannot_be_shown_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(BraceError, match="without a run"):
        write_suite_page(SuiteView("t", (), {}, {}, (), "c"), tmp_path / "x.html")
    view = small_suite(tmp_path)
    with pytest.raises(BraceError, match="do not match: maze / BRACE"):
        write_suite_page(replace(view, labels={k: v for k, v in view.labels.items() if k != "maze / BRACE"}),
                         tmp_path / "x.html")  # fmt: skip
    with pytest.raises(BraceError, match="cannot write the page"):
        write_suite_page(view, tmp_path)
