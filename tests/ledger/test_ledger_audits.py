from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_kit import call, end, write_run

from brace.ledger import Call, Record, Step
from brace.ledger.audits import Breach, SuppressionRow, anti_churn, suppression_audit, worst_calls
from brace.ledger.intervals import wilson
from brace.ledger.reader import load_run
from brace.ledger.records import Phase


def suppressed(t: int, gate: str | None = "cooldown", *triggers: str, episode: int = 0) -> Step:
    return Step(episode, t, triggers=triggers or ("failure",), gate=gate)


def quiet(*times: int, episode: int = 0) -> list[Step]:
    return [Step(episode, t) for t in times]


def audit(directory: Path, records: list[Any], horizon: int = 5, **ending: Any) -> list[SuppressionRow]:
    run = load_run(write_run(directory, [*records, end(0, **ending)]))
    return suppression_audit(run, horizon)


def outcome(directory: Path, records: list[Any], horizon: int = 5, **ending: Any) -> str:
    [row] = audit(directory, records, horizon, **ending)
    assert row.segments == 1
    return next(name for name in ("recovered", "harmless", "harmful") if getattr(row, name))


def test_nothing_happens_harmless(tmp_path: Path) -> None:
    assert outcome(tmp_path, [suppressed(0), *quiet(*range(1, 10))]) == "harmless"


@pytest.mark.parametrize("status", ["ok", "partial"])
def test_an_accepted_plan_recovers(tmp_path: Path, status: str) -> None:
    planned = call(0, 0, 2, t_end=5, status=status)
    assert outcome(tmp_path, [suppressed(0), *quiet(*range(1, 10)), planned]) == "recovered"


@pytest.mark.parametrize("status", ["cut", "shed", "refused", "failed", "cancelled"])
def test_a_plan_that_was_not_accepted_does_not(tmp_path: Path, status: str) -> None:
    given_up = call(0, 0, 2, t_end=4, status=status)
    assert outcome(tmp_path, [suppressed(0), *quiet(*range(1, 10)), given_up]) == "harmless"


def test_a_plan_past_the_horizon_is_too_late(tmp_path: Path) -> None:
    planned = call(0, 0, 2, t_end=6)
    assert outcome(tmp_path, [suppressed(0), *quiet(*range(1, 10)), planned]) == "harmless"


def test_a_plan_that_arrived_before_the_segments_end_is_none_of_its_own(tmp_path: Path) -> None:
    planned = call(0, 0, 0, t_end=3)
    assert outcome(tmp_path, [suppressed(3), *quiet(*range(4, 10)), planned]) == "harmless"


def test_a_critical_hazard_before_the_plan_harms(tmp_path: Path) -> None:
    trace = [suppressed(0), Step(0, 1), Step(0, 2, critical=True), *quiet(3, 4), call(0, 0, 2, t_end=3)]
    assert outcome(tmp_path, trace) == "harmful"


def test_a_critical_hazard_after_the_plan_does_not(tmp_path: Path) -> None:
    trace = [suppressed(0), Step(0, 1), Step(0, 2), Step(0, 3, critical=True), call(0, 0, 1, t_end=2)]
    assert outcome(tmp_path, trace) == "recovered"


def test_a_hazard_in_the_step_of_the_plan_it_called_for_came_first(tmp_path: Path) -> None:
    trace = [suppressed(0), Step(0, 1, critical=True, replan=True, override="hazard"), call(0, 0, 1)]
    [row] = audit(tmp_path, trace)
    assert (row.harmful, row.override) == (1, 1)


def test_a_critical_hazard_past_the_horizon_is_not_counted(tmp_path: Path) -> None:
    trace = [suppressed(0), *quiet(*range(1, 6)), Step(0, 6, critical=True)]
    assert outcome(tmp_path, trace) == "harmless"
    assert [row.harmful for row in suppression_audit(load_run(tmp_path), 6)] == [1]


def test_a_new_deadlock_harms(tmp_path: Path) -> None:
    trace = [suppressed(0), Step(0, 1), Step(0, 2, triggers=("deadlock",), replan=True)]
    assert outcome(tmp_path, trace) == "harmful"


def test_a_deadlock_that_was_on_already_does_not(tmp_path: Path) -> None:
    trace = [
        suppressed(0, "cooldown", "deadlock"),
        Step(0, 1, triggers=("deadlock",), replan=True),
        Step(0, 2),
    ]
    assert outcome(tmp_path, trace) == "harmless"


def test_only_the_segments_last_step_says_whether_the_deadlock_was_on(tmp_path: Path) -> None:
    trace = [
        suppressed(0, "cooldown", "deadlock"),
        suppressed(1),
        Step(0, 2, triggers=("deadlock",), replan=True),
    ]
    assert outcome(tmp_path, trace) == "harmful"


def test_an_unsuccessful_end_without_a_plan_harms(tmp_path: Path) -> None:
    assert outcome(tmp_path, [suppressed(0), *quiet(1, 2)], success=False) == "harmful"


def test_an_episode_that_fails_in_the_suppressed_step_itself_harms(tmp_path: Path) -> None:
    assert outcome(tmp_path, [*quiet(0), suppressed(1)], success=False) == "harmful"


def test_an_unsuccessful_end_after_a_plan_does_not(tmp_path: Path) -> None:
    trace = [suppressed(0), *quiet(1, 2), call(0, 0, 1, t_end=2)]
    assert outcome(tmp_path, trace, success=False) == "recovered"


def test_an_unsuccessful_end_past_the_horizon_does_not(tmp_path: Path) -> None:
    assert outcome(tmp_path, [suppressed(0), *quiet(*range(1, 7))], success=False) == "harmless"


@pytest.mark.parametrize("success", [True, None])
def test_a_successful_or_unjudged_end_does_not_harm(tmp_path: Path, success: bool | None) -> None:
    assert outcome(tmp_path, [suppressed(0), *quiet(1)], success=success) == "harmless"


def test_a_plan_that_would_arrive_after_the_end_does_not_recover(tmp_path: Path) -> None:
    trace = [suppressed(0), *quiet(1, 2), call(0, 0, 1, t_end=4)]
    assert outcome(tmp_path, trace, success=False) == "harmful"


def test_events_of_another_episode_do_not_count(tmp_path: Path) -> None:
    other = [Step(1, 0), Step(1, 1, critical=True, override="hazard"), call(1, 0, 1), end(1, success=False)]
    [row] = audit(tmp_path, [suppressed(0), *quiet(1, 2), *other])
    assert (row.harmless, row.override) == (1, 0)


def test_segments_are_split_by_gaps_reasons_and_episodes(tmp_path: Path) -> None:
    trace = [
        suppressed(0), suppressed(1), suppressed(2, "commit"), suppressed(3, "commit"), suppressed(4),
        Step(0, 5), suppressed(6), suppressed(7, None),
        suppressed(8, None, episode=1), end(1),
    ]  # fmt: skip
    rows = audit(tmp_path, trace)
    assert [(row.reason, row.segments) for row in rows] == [("cooldown", 3), ("commit", 1), ("unstated", 2)]


def test_shares_are_over_segments_with_wilsons_interval(tmp_path: Path) -> None:
    trace = [suppressed(0), *quiet(1), suppressed(2), *quiet(3), suppressed(4), *quiet(5), call(0, 0, 5)]
    [row] = audit(tmp_path, trace, horizon=3)
    share = row.share("recovered")
    assert (row.segments, row.recovered, row.harmless) == (3, 2, 1)
    assert (share.value, share.n, share.denominator) == (2 / 3, 3, "segments")
    assert (share.lo, share.hi) == wilson(2, 3)


def test_without_suppression_the_audit_is_empty(tmp_path: Path) -> None:
    assert audit(tmp_path, [Step(0, 0), call()]) == []


def naive(
    steps: list[Step], calls: list[Call], success: dict[int, bool | None], horizon: int
) -> Counter[str]:
    """The definition, read aloud."""
    counts: Counter[str] = Counter()
    by_key = {(step.episode, step.t): step for step in steps}

    def reason(step: Step | None) -> str | None:
        return step.gate if step and step.triggers and not step.replan else None

    for step in steps:
        following = by_key.get((step.episode, step.t + 1))
        if reason(step) is None or reason(following) == reason(step):
            continue
        final = max(other.t for other in steps if other.episode == step.episode)
        plans = {c.t_end for c in calls if c.episode == step.episode and c.status == "ok"}
        result, override = "harmless", False
        for t in range(step.t + 1, min(final, step.t + horizon) + 1):
            seen = by_key[step.episode, t]
            override |= seen.override is not None
            if result == "harmless":
                jam = "deadlock" in seen.triggers and "deadlock" not in step.triggers
                result = "harmful" if seen.critical or jam else "recovered" if t in plans else "harmless"
        if result == "harmless" and success[step.episode] is False and final <= step.t + horizon:
            result = "harmful"
        counts[f"{step.gate} {result}"] += 1
        counts[f"{step.gate} override"] += override
    return +counts


@st.composite
def traces(draw: st.DrawFn) -> tuple[list[Step], list[Call], dict[int, bool | None]]:
    rare = st.integers(0, 7).map(lambda number: number == 0)
    steps, calls, success = [], [], {}
    for episode in range(draw(st.integers(1, 3))):
        length = draw(st.integers(1, 25))
        success[episode] = draw(st.sampled_from([True, False, None]))
        for t in range(length):
            gate = draw(st.sampled_from([None, "cooldown", "cooldown", "commit"]))
            triggers = ("deadlock",) if draw(rare) else ("failure",) if gate else ()
            override = "hazard" if draw(rare) else None
            steps.append(
                Step(episode, t, 0, triggers, gate is None and bool(triggers), gate if triggers else None,
                     override, critical=draw(rare))
            )  # fmt: skip
        ends = sorted(draw(st.sets(st.integers(0, length + 3), max_size=4)))
        calls += [
            call(episode, index, max(0, t - 1), t_end=t, status=draw(st.sampled_from(["ok", "cut"])))
            for index, t in enumerate(ends)
        ]
    return steps, calls, success


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trace=traces(), horizon=st.integers(1, 8))
def test_the_audit_equals_its_definition(
    tmp_path: Path, trace: tuple[list[Step], list[Call], dict[int, bool | None]], horizon: int
) -> None:
    steps, calls, success = trace
    for old in tmp_path.glob("*"):
        old.unlink()
    ends: list[Record] = [end(episode, success=judged) for episode, judged in success.items()]
    rows = suppression_audit(load_run(write_run(tmp_path, [*steps, *calls, *ends])), horizon)
    counts = Counter(
        {
            f"{row.reason} {name}": getattr(row, name)
            for row in rows
            for name in ("recovered", "harmless", "harmful", "override")
        }
    )
    assert +counts == naive(steps, calls, success, horizon)


def test_the_worst_calls_come_first_and_say_why(tmp_path: Path) -> None:
    decoding = (
        Phase("sense", -900.0, 900.0), Phase("context_compress", 0.0, 50.0),
        Phase("replan", 50.0, 240.0), Phase("replan.queue", 50.0, 10.0), Phase("replan.decode", 60.0, 220.0),
    )  # fmt: skip
    records: list[Record] = [
        call(0, 0, 1, latency_ms=500.0, slo_ms=1000.0, phases=(Phase("retrieve", 0.0, 450.0),)),
        call(0, 1, 2, latency_ms=300.0, slo_ms=200.0, missed=True, phases=decoding),
        call(0, 2, 3, latency_ms=90.0, slo_ms=1000.0, phases=(Phase("replan", 0.0, 20.0),)),
        call(0, 3, 4, latency_ms=2.0, slo_ms=1.0, status="shed"),
        call(0, 4, 5, latency_ms=80.0),
        end(),
    ]
    worst = worst_calls(load_run(write_run(tmp_path, records)), 4)
    assert [(late.index, late.missed) for late in worst] == [(1, True), (3, True), (0, False), (2, False)]
    assert (worst[0].dominant, worst[0].dominant_ms) == ("replan.decode", 220.0)
    assert worst[0].phases["sense"] == 900.0
    assert (worst[2].dominant, worst[2].dominant_ms) == ("retrieve", 450.0)
    assert (worst[3].dominant, worst[3].dominant_ms) == ("unaccounted", 70.0)


def test_a_whole_phase_dominates_by_what_its_parts_leave(tmp_path: Path) -> None:
    phases = (Phase("replan", 0.0, 100.0), Phase("replan.prefill", 0.0, 30.0))
    [late] = worst_calls(load_run(write_run(tmp_path, [call(phases=phases), end()])), 9)
    assert (late.dominant, late.dominant_ms) == ("replan", 70.0)


def test_calls_and_changes_too_close_are_listed(tmp_path: Path) -> None:
    records: list[Record] = [
        call(0, 0, 0, t_end=2, changed=True),
        call(0, 1, 5, t_end=6),
        call(0, 2, 9, t_end=11, changed=True),
        call(0, 3, 14, t_end=14, changed=True),
        end(0),
        call(1, 0, 1, changed=True),
        end(1),
    ]
    run = load_run(write_run(tmp_path, records))
    assert anti_churn(run, cooldown=4, commit=3) == []
    assert anti_churn(run, cooldown=5, commit=4) == [
        Breach("cooldown", 0, 2, 9, 4, 5),
        Breach("commit", 0, 3, 14, 3, 4),
    ]


def test_an_override_excuses(tmp_path: Path) -> None:
    records: list[Record] = [
        call(0, 0, 0, changed=True),
        call(0, 1, 1, changed=True, override="hazard"),
        call(0, 2, 2, changed=True),
        end(0),
    ]
    breaches = anti_churn(load_run(write_run(tmp_path, records)), cooldown=2, commit=2)
    assert [(breach.rule, breach.index) for breach in breaches] == [("cooldown", 2), ("commit", 2)]
