from __future__ import annotations

from pathlib import Path

import pytest
from ledger_kit import call, end, write_run

from brace.ledger import Phase, Record, Step
from brace.ledger.intervals import wilson
from brace.ledger.metrics import Summary, latency_table, summarise
from brace.ledger.reader import load_run


def queued(ms: float) -> tuple[Phase, ...]:
    return (Phase("replan", 0.0, ms + 50.0), Phase("replan.queue", 0.0, ms))


HAND_MADE: list[Record] = [
    Step(0, 0, triggers=("goal",), replan=True),
    Step(0, 1, triggers=("failure",), gate="cooldown"),
    Step(0, 2, triggers=("failure", "divergence"), gate="cooldown"),
    Step(0, 3, triggers=("failure", "hazard"), replan=True, override="hazard"),
    Step(0, 4),
    Step(0, 5, triggers=("periodic",), gate="in_flight"),
    Step(0, 6, triggers=("periodic",)),
    call(
        0, 0, 0, slo_ms=200.0, budget=500, tokens_in=1000, tokens_after=500, changed=True,
        phases=queued(10.0),
    ),
    call(
        0, 1, 3, slo_ms=200.0, budget=800, tokens_in=1000, tokens_after=800, phases=queued(30.0),
        latency_ms=300.0, status="cut", missed=True, fallback="keep", override="hazard",
    ),
    end(0, success=True, wait_ms=100.0),
    call(1, 0, 0, slo_ms=200.0, budget=500, latency_ms=5.0, status="shed", missed=True, fallback="stop"),
    call(1, 1, 1, slo_ms=200.0, mode="cached", latency_ms=1.0, changed=True),
    call(1, 2, 2, latency_ms=200.0, tokens_in=1000, tokens_after=1000),
    end(1, success=False, wait_ms=300.0),
    end(2, success=None, wait_ms=20.0),
]  # fmt: skip


@pytest.fixture
def hand_made(tmp_path: Path) -> Summary:
    return summarise(load_run(write_run(tmp_path, HAND_MADE)))


@pytest.mark.parametrize(
    ("name", "value", "n", "denominator"),
    [
        ("episodes", 3, 1, "run"),
        ("success", 1 / 2, 2, "episodes judged"),
        ("calls", 5, 1, "run"),
        ("calls_per_episode", 5 / 3, 3, "episodes"),
        ("latency_p50", 200.0, 3, "executed calls"),
        ("latency_p95", 290.0, 3, "executed calls"),
        ("latency_p99", 298.0, 3, "executed calls"),
        ("miss_rate", 2 / 4, 4, "calls with an SLO"),
        ("tokens_in", 1000.0, 3, "calls with a prompt"),
        ("tokens_after", 2300 / 3, 3, "calls with a prompt"),
        ("reduction", 700 / 3000, 3, "calls with a prompt"),
        ("bind_rate", 2 / 5, 5, "calls"),
        ("churn", 2 / 5, 5, "calls"),
        ("changes_per_episode", 2 / 3, 3, "episodes"),
        ("wait_per_episode", 140.0, 3, "episodes"),
        ("queue_per_call", 8.0, 5, "calls"),
        ("suppressed", 4 / 6, 6, "triggers"),
        ("suppressed.cooldown", 2 / 6, 6, "triggers"),
        ("suppressed.commit", 0.0, 6, "triggers"),
        ("suppressed.in_flight", 1 / 6, 6, "triggers"),
        ("suppressed.unstated", 1 / 6, 6, "triggers"),
        ("override.hazard", 1 / 5, 5, "calls"),
        ("override.deadlock", 0.0, 5, "calls"),
        ("fallback.keep", 1 / 5, 5, "calls"),
        ("fallback.stored", 0.0, 5, "calls"),
        ("fallback.stop", 1 / 5, 5, "calls"),
        ("status.ok", 3 / 5, 5, "calls"),
        ("status.cut", 1 / 5, 5, "calls"),
        ("status.shed", 1 / 5, 5, "calls"),
        ("cached", 1 / 5, 5, "calls"),
        ("cached_p50", 1.0, 1, "calls served from a store"),
    ],
)
def test_every_figure_is_what_the_hand_computes(
    hand_made: Summary, name: str, value: float, n: int, denominator: str
) -> None:
    figure = hand_made[name]
    assert figure.value == pytest.approx(value)
    assert (figure.n, figure.denominator) == (n, denominator)


def test_rates_carry_wilsons_interval_and_means_the_bootstraps(hand_made: Summary) -> None:
    assert (hand_made["miss_rate"].lo, hand_made["miss_rate"].hi) == wilson(2, 4)
    assert (hand_made["suppressed"].lo, hand_made["suppressed"].hi) == wilson(4, 6)
    wait = hand_made["wait_per_episode"]
    assert wait.lo is not None
    assert wait.hi is not None
    assert 20.0 <= wait.lo < 140.0 < wait.hi <= 300.0


def test_what_a_rate_leaves_out_is_said(hand_made: Summary) -> None:
    assert hand_made.latency_kind == "measured"
    assert "1 of 5 calls had no SLO: the miss rate leaves them out" in hand_made.notes
    assert any("shed" in note for note in hand_made.notes)
    assert any("store" in note for note in hand_made.notes)


def test_a_miss_is_a_miss_even_if_nobody_flagged_it(tmp_path: Path) -> None:
    calls: list[Record] = [
        call(0, 0, latency_ms=200.1, slo_ms=200.0),
        call(0, 1, latency_ms=150.0, slo_ms=200.0, status="cut"),
        call(0, 2, latency_ms=200.0, slo_ms=200.0),
    ]
    assert summarise(load_run(write_run(tmp_path, [*calls, end()])))["miss_rate"].value == pytest.approx(
        2 / 3
    )


def test_kinds_of_latency_are_never_mixed(tmp_path: Path) -> None:
    calls: list[Record] = [
        call(0, 0, latency_ms=10.0),
        call(0, 1, latency_ms=20.0),
        call(0, 2, latency_ms=900.0, kind="modelled"),
    ]
    summary = summarise(load_run(write_run(tmp_path, [*calls, end()])))
    assert summary.latency_kind == "measured, modelled"
    assert "latency_p50" not in summary
    assert (summary["latency_p50.measured"].value, summary["latency_p50.measured"].n) == (15.0, 2)
    assert (summary["latency_p99.modelled"].value, summary["latency_p99.modelled"].n) == (900.0, 1)


def test_without_calls_there_are_dashes_not_zeros(tmp_path: Path) -> None:
    summary = summarise(load_run(write_run(tmp_path, [Step(0, 0), end(0), end(1, success=False)])))
    assert summary.latency_kind == "–"
    for name in ("latency_p50", "latency_p99", "miss_rate", "reduction", "churn", "suppressed", "status.ok"):
        assert str(summary[name]) == "–"
    assert (summary["calls"].value, summary["calls_per_episode"].value) == (0, 0.0)
    assert (summary["success"].value, summary["wait_per_episode"].value) == (0.5, 0.0)


def test_an_empty_run_can_be_summarised(tmp_path: Path) -> None:
    summary = summarise(load_run(write_run(tmp_path, [])))
    assert summary["episodes"].value == 0
    assert str(summary["success"]) == str(summary["calls_per_episode"]) == "–"


def test_an_endless_episode_counts_what_it_has_so_far(tmp_path: Path) -> None:
    so_far: list[Record] = [Step(0, 0), call(0, 0, wait_ms=40.0), call(0, 1, wait_ms=2.0)]
    summary = summarise(load_run(write_run(tmp_path, so_far, seeds=())))
    assert (summary["episodes"].value, summary["calls_per_episode"].value) == (1, 2.0)
    assert summary["wait_per_episode"].value == 42.0
    assert str(summary["success"]) == "–"


def test_what_was_skipped_in_reading_is_among_the_notes(tmp_path: Path) -> None:
    summary = summarise(load_run(write_run(tmp_path, [Step(0, 0)])))
    assert summary.notes == ("unfinished and left out: episode 0 attempt 0",)


def test_phases_are_summed_per_call_and_share_the_time_of_all(tmp_path: Path) -> None:
    def phases(*times: tuple[str, float, float]) -> tuple[Phase, ...]:
        return tuple(Phase(*entry) for entry in times)

    records: list[Record] = [
        call(0, 0, phases=phases(("sense", -5.0, 4.0), ("retrieve", 0.0, 3.0), ("retrieve", 3.0, 3.0),
                                 ("replan", 6.0, 30.0), ("replan.decode", 16.0, 20.0))),
        call(0, 1, phases=phases(("sense", -5.0, 2.0), ("replan", 0.0, 61.0), ("replan.decode", 1.0, 60.0))),
        call(0, 2, status="shed", phases=phases(("sense", -5.0, 999.0))),
        call(0, 3, mode="cached", phases=phases(("retrieve", 0.0, 999.0))),
        call(0, 4, kind="replayed", phases=phases(("replan", 0.0, 7.0))),
        call(0, 5),
        end(),
    ]  # fmt: skip
    rows = latency_table(load_run(write_run(tmp_path, records)))
    assert [(row.kind, row.phase, row.p50.value, row.p50.n) for row in rows] == [
        ("measured", "sense", 3.0, 2),
        ("measured", "retrieve", 6.0, 1),
        ("measured", "replan", 45.5, 2),
        ("measured", "replan.decode", 40.0, 2),
        ("replayed", "replan", 7.0, 1),
    ]
    shares = [row.share.value for row in rows]
    total = 6.0 + 6.0 + 91.0
    assert shares == pytest.approx([6 / total, 6 / total, 91 / total, 80 / total, 1.0])
    assert rows[2].p95.value == pytest.approx(30.0 + 0.95 * 31.0)


@pytest.mark.parametrize("status", ["shed", "over_budget", "cancelled"])
def test_a_call_that_did_not_run_to_its_end_is_no_latency_but_a_call(tmp_path: Path, status: str) -> None:
    records = [call(0, 0, latency_ms=100.0), call(0, 1, latency_ms=1.0, status=status), end(0)]
    summary = summarise(load_run(write_run(tmp_path, records)))
    assert (summary["latency_p50"].value, summary["latency_p50"].n) == (100.0, 1)
    assert summary["calls"].value == 2
