"""Plots draw what the ledger holds: every call once, kinds apart, thinning said."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.patches import Rectangle
from report_kit import call, end, phases, run_of, typical

from brace.ledger.reader import Run
from brace.report import plots, style

LATENCIES = st.lists(st.floats(0, 1e6), min_size=1, max_size=400)


@given(LATENCIES, st.integers(2, 50))
def test_thinning_keeps_both_ends_and_the_order(values: list[float], most: int) -> None:
    kept = np.asarray(values)[plots.thin(values, most)]
    assert len(kept) == min(len(values), most)
    assert (kept[0], kept[-1]) == (min(values), max(values)) or len(values) == 1
    assert (np.diff(kept) >= 0).all()


@given(LATENCIES, st.integers(2, 50))
def test_a_cdf_rises_to_one_thinned_or_not(values: list[float], most: int) -> None:
    x, y = plots.cdf(values, most)
    assert (np.diff(x) >= 0).all()
    assert (np.diff(y) > 0).all()
    assert (x[-1], y[-1]) == (max(values), 1.0)
    for value, share in zip(x, y, strict=True):
        below, upto = sum(v < value for v in values), sum(v <= value for v in values)
        assert below < round(share * len(values)) <= upto


def test_the_cdf_of_a_run_holds_every_call(tmp_path: Path) -> None:
    _, axes = style.blank(3)
    assert plots.latency_cdf(axes, {"a": typical(tmp_path)}) == []
    x, y = axes.lines[0].get_data()
    assert list(np.asarray(x)[1:]) == [80.0, 100.0, 121.0, 200.0]
    assert list(np.asarray(y)[1:]) == [0.25, 0.5, 0.75, 1.0]
    assert [text.get_text() for text in axes.texts] == ["SLO 120"]
    assert axes.get_xlabel() == "latency, ms (measured)"


def test_latency_kinds_get_lines_of_their_own(tmp_path: Path) -> None:
    run = run_of(tmp_path, call(0), call(1, 3, kind="modelled"), call(2, 6, status="shed"), end())
    assert [(one.name, len(one.calls)) for one in plots.series({"a": run})] == [
        ("a (measured)", 1), ("a (modelled)", 1),
    ]  # fmt: skip
    _, axes = style.blank(3)
    plots.latency_cdf(axes, {"a": run})
    assert "several kinds" in axes.get_xlabel()


def test_an_slo_far_off_does_not_squeeze_the_axis(tmp_path: Path) -> None:
    run = run_of(tmp_path, call(slo_ms=60_000.0), end())
    _, axes = style.blank(3)
    assert plots.latency_cdf(axes, {"a": run}) == ["the SLO of 60000 ms lies far beyond the axis"]
    assert axes.get_xlim()[1] < 1_000


def test_a_long_tail_gets_a_log_axis_and_says_so(tmp_path: Path) -> None:
    run = run_of(tmp_path, *(call(i, i, latency_ms=10.0 + 9_000 * (i == 5)) for i in range(6)), end())
    figure, axes = style.blank(3)
    plots.latency_cdf(axes, {"a": run})
    assert axes.get_xscale() == "log"
    assert ">1000</text>" in style.svg(figure, "cdf", "t")
    assert "log scale" in axes.get_xlabel()


def test_phase_bars_are_means_with_the_parts_of_replan(tmp_path: Path) -> None:
    run = run_of(
        tmp_path, call(0, phases=phases(20, 60, 20)), call(1, 3, phases=phases(40, 100, 40)), end()
    )  # fmt: skip
    _, axes = style.blank(2)
    said = plots.phase_stack(axes, {"a": run})
    widths = [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)]
    assert widths == pytest.approx([30.0, 80.0, 30.0, 1.0])  # compress, prefill, decode, the rest
    assert said == ["“the rest”: sense, each below 1.5 % of the longest bar"]
    assert "141 ms" in [text.get_text() for text in axes.texts]


def test_what_is_written_in_a_bar_fits_into_it(tmp_path: Path) -> None:
    run = run_of(tmp_path, call(phases=phases(25, 30, 45)), end())
    figure, axes = style.blank(2)
    plots.phase_stack(axes, {"a": run})
    figure.draw_without_rendering()
    inside = [text for text in axes.texts if text.get_ha() == "center"]
    assert {text.get_text() for text in inside} == {"prefill 30", "decode 45"}
    for text in inside:
        box = text.get_window_extent()
        assert any(
            bar.get_window_extent().x0 < box.x0 and box.x1 < bar.get_window_extent().x1
            for bar in axes.patches
        )
    legend = axes.get_legend()
    assert legend is not None
    assert "context_compress" in [text.get_text() for text in legend.get_texts()]


def test_misses_are_crosses_and_uncut_prompts_are_faint(tmp_path: Path) -> None:
    _, axes = style.blank(3)
    plots.tokens_scatter(axes, {"a": typical(tmp_path)})
    points = {(line.get_marker(), line.get_alpha()): line.get_xydata().tolist() for line in axes.lines}  # type: ignore[union-attr]
    assert points["x", 1.0] == [[500, 121], [500, 200]]
    assert points["o", 0.75] == [[500, 80], [500, 100]]
    assert [x for x, _ in points["o", 0.35]] == [900] * 4


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Run:
    rng = random.Random(1)
    calls = [call(i, i, latency_ms=rng.lognormvariate(4, 0.5)) for i in range(2_500)]
    return run_of(tmp_path_factory.mktemp("crowded"), *calls, end())


@pytest.mark.parametrize("draw", [plots.latency_cdf, plots.tokens_scatter])
def test_thinning_is_said_and_keeps_the_extremes(draw: object, crowded: Run) -> None:
    _, axes = style.blank(3)
    said = draw(axes, {"a": crowded})  # type: ignore[operator]
    assert said == ["thinned: 2000 of 2500 calls are drawn, evenly by rank, both ends kept"]
    latency = 0 if draw is plots.latency_cdf else 1
    shown = np.concatenate([np.asarray(line.get_data()[latency]) for line in axes.lines])
    times = crowded.calls["latency_ms"].to_list()
    assert min(times) in shown
    assert max(times) in shown


def test_two_runs_share_the_points_of_a_plot(crowded: Run) -> None:
    _, axes = style.blank(3)
    assert plots.latency_cdf(axes, {"a": crowded, "b": crowded})[0].startswith("thinned: 2000 of 5000")


@pytest.mark.parametrize("draw", [plots.latency_cdf, plots.phase_stack, plots.tokens_scatter])
def test_a_plot_of_nothing_says_so(draw: object, tmp_path: Path) -> None:
    _, axes = style.blank(3)
    said = draw(axes, {"a": run_of(tmp_path, call(status="shed"), end())})  # type: ignore[operator]
    assert [text.get_text() for text in axes.texts] == said
    assert said[0].startswith("no executed call")


def test_short_names_differ_and_fit() -> None:
    sweep = [f"world-of-great-length__rules-{rule}__commit-{n}__window-5" for rule in "ab" for n in (0, 2)]
    assert style.short_names(sweep)[sweep[0]] == "rules-a commit-0"
    long = ["x" * 30 + middle + "y" * 30 for middle in "ab"]
    assert len(set(style.short_names(long).values())) == 2
    assert all(len(name) < 50 for name in style.short_names(long).values())
    assert style.short_names(["a", "b"]) == {"a": "a", "b": "b"}


@pytest.mark.parametrize("label", ["cost $5 & $6", "_hidden", "規劃器 🤖", "<script>x</script>", "a\x1b[2Jb"])
def test_any_label_can_be_drawn(label: str, tmp_path: Path) -> None:
    figure, axes = style.blank(3)
    plots.latency_cdf(axes, {label: typical(tmp_path)})
    drawing = style.svg(figure, "cdf", label)
    assert drawing.count("n = 4") == 1
    assert "<script" not in drawing
    assert "\x1b" not in drawing
    assert label.isprintable() is not ("\N{REPLACEMENT CHARACTER}" in drawing)


def test_an_svg_follows_the_page(tmp_path: Path) -> None:
    figure, axes = style.blank(3)
    plots.latency_cdf(axes, {"a": typical(tmp_path)})
    drawing = style.svg(figure, "cdf", "what is seen")
    assert style.INK not in drawing
    assert "currentColor" in drawing
    assert 'aria-label="what is seen"' in drawing
    assert "DejaVu" not in drawing
    assert ">calls done, %</text>" in drawing
    assert "http" not in drawing
