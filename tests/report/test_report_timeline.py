"""A timeline shows each trigger, each call and what came of it, in the right place."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.patches import Rectangle
from report_kit import call, end, run_of, typical

from brace.ledger import Step
from brace.report import style, timeline


def test_lanes_hold_the_steps_at_which_things_happened(tmp_path: Path) -> None:
    run = typical(tmp_path)
    first, second = ({lane.name: lane.times for lane in timeline.lanes(run, episode)} for episode in (0, 1))
    assert first == {
        "periodic": [0], "failure": [1], "deadlock": [5], "exhausted": [0], "held: cooldown": [1],
        "override: deadlock": [5], "missed SLO": [8],
    }  # fmt: skip
    assert second == {
        "periodic": [3], "hazard": [6], "goal": [0], "critical hazard": [6], "held: in_flight": [3],
        "cancel: goal": [0], "missed SLO": [7], "fallback: keep": [7],
    }  # fmt: skip


def test_bars_reach_from_decision_to_arrival(tmp_path: Path) -> None:
    _, axes = style.blank(3)
    assert timeline.draw_timeline(axes, typical(tmp_path), 0) == []
    bars = [bar for bar in axes.patches if isinstance(bar, Rectangle)]
    assert [(bar.get_x(), pytest.approx(bar.get_width(), abs=0.21)) for bar in bars] == [(0, 1), (5, 3)]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["accepted", "accepted, late"]


@pytest.mark.parametrize(
    ("status", "missed", "what"),
    [
        ("ok", False, "accepted"), ("partial", True, "accepted, late"), ("cut", True, "nothing in time"),
        ("shed", True, "nothing in time"), ("cancelled", False, "cancelled"),
        ("unparsable", False, "no usable plan"), ("failed", True, "no usable plan"),
    ],
)  # fmt: skip
def test_a_call_comes_to_one_of_five_things(status: str, missed: bool, what: str) -> None:
    assert timeline.outcome(status, missed) == what


def test_the_most_eventful_episodes_come_first(tmp_path: Path) -> None:
    run = run_of(
        tmp_path,
        end(0),
        *(Step(episode=1, t=t, triggers=("periodic",), replan=True) for t in range(5)),
        end(1),
        call(0, episode=2, missed=True, fallback="stop"),
        end(2),
        Step(episode=3, t=0, triggers=("hazard",), replan=True, override="hazard"),
        end(3),
        seeds=(1, 2, 3, 4),
    )
    assert timeline.eventful(run, 9) == [2, 3, 1, 0]
    assert timeline.eventful(run, 1) == [2]


def test_of_an_endless_episode_the_busiest_stretch_is_drawn(tmp_path: Path) -> None:
    steps = [Step(episode=0, t=t) for t in range(0, 5_000, 100)]
    busy = [Step(episode=0, t=t, triggers=("failure",), gate="commit") for t in range(3_000, 3_020)]
    run = run_of(tmp_path, Step(episode=0, t=1, triggers=("periodic",), replan=True), *steps, *busy, seeds=())
    _, axes = style.blank(3)
    said = timeline.draw_timeline(axes, run, 0)
    assert said[-1] == "steps 3000 to 3400 of 0 to 4900: the stretch with the most marks"
    assert axes.get_xlim()[0] > 2_990
    assert axes.get_xlim()[1] < 3_410


def test_an_episode_without_calls_says_so(tmp_path: Path) -> None:
    figure, said = timeline.timeline_figure(run_of(tmp_path, Step(episode=0, t=0), end()), 0)
    assert said == ["no planner call in this episode"]
    assert "step t" in style.svg(figure, "timeline", "t")
