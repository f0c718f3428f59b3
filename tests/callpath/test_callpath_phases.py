"""Where a call's time went: the phases, their order, and that they add up."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from callpath_kit import SLACK_MS, TEMPLATE, Gate, Recorder, call, compressor, lines_of, patient, pool_of

from brace.callpath import CallPath, Fit, Mode, OpenCall
from brace.callpath.compress import Compressor
from brace.callpath.phases import PhaseClock
from brace.callpath.retrieve import LexicalRetriever
from brace.context import Line, Segment
from brace.ledger.records import Phase
from brace.planners import Answer, Deadline, Planner
from brace.registry import planners

LINES = lines_of([Segment("task", "tidy"), *(Segment("observation", f"door {n} shut", n) for n in range(60))])
PARTS = ["replan.queue", "replan.prefill", "replan.decode"]
BEHAVIOURS: dict[str, tuple[Callable[[], Planner], float | None]] = {
    "answered": (lambda: planners.create("fake-fixed", {"prefill_ms": 60, "decode_ms": 80}), None),
    "cut before the first piece": (lambda: planners.create("fake-hanging"), 100),
    "cut after the first piece": (lambda: Gate(before="goto(hall)"), 100),
    "failed": (lambda: planners.create("fake-failing"), None),
    "empty": (lambda: Recorder(text=""), None),
}
every_behaviour = pytest.mark.parametrize("behaviour", list(BEHAVIOURS))
with_and_without_retrieval = pytest.mark.parametrize("retriever", [None, LexicalRetriever(["tidy up"])])


def made(behaviour: str, retriever: LexicalRetriever | None = None) -> OpenCall:
    planner, slo_ms = BEHAVIOURS[behaviour]
    return call(planner(), LINES, budget=150, slo_ms=slo_ms, retriever=retriever)


def by_name(result: OpenCall) -> dict[str, Phase]:
    return {phase.name: phase for phase in result.clock.phases}


@every_behaviour
@with_and_without_retrieval
@patient
def test_phases_come_once_each_and_in_order(behaviour: str, retriever: LexicalRetriever | None) -> None:
    names = [phase.name for phase in made(behaviour, retriever).clock.phases]
    assert names == ["context_compress", *(["retrieve"] if retriever else []), "replan", *PARTS]


@every_behaviour
@with_and_without_retrieval
@patient
def test_no_phase_is_negative_and_the_latency_covers_each(
    behaviour: str, retriever: LexicalRetriever | None
) -> None:
    result = made(behaviour, retriever)
    assert all(phase.ms >= 0 and phase.start_ms >= 0 for phase in result.clock.phases)
    assert all(phase.start_ms + phase.ms <= result.latency_ms for phase in result.clock.phases)
    mains = [phase for phase in result.clock.phases if "." not in phase.name]
    assert sum(phase.ms for phase in mains) <= result.latency_ms
    ends = [0.0]
    for phase in mains:
        assert phase.start_ms >= ends[-1] - 0.001  # one after another, never overlapping
        ends.append(phase.start_ms + phase.ms)


@every_behaviour
@patient
def test_the_parts_of_replan_follow_each_other_and_add_up_to_it(behaviour: str) -> None:
    phases = by_name(made(behaviour))
    whole, parts = phases["replan"], [phases[name] for name in PARTS]
    start = whole.start_ms
    for part in parts:
        assert part.start_ms == pytest.approx(start, abs=0.01)
        start += part.ms
    spent = sum(part.ms for part in parts)
    assert spent <= whole.ms + 0.01
    # `fake-fixed` sleeps another 10 ms after its last piece; waking up takes the rest.
    assert whole.ms - spent <= 10 + SLACK_MS


@patient
def test_prefill_ends_with_the_first_piece_and_decode_with_the_last() -> None:
    planner = planners.create("fake-fixed", {"prefill_ms": 400, "decode_ms": 160, "text": "a" * 24})
    phases = by_name(call(planner, LINES))
    assert phases["replan.queue"].ms < SLACK_MS
    assert 400 <= phases["replan.prefill"].ms < 400 + SLACK_MS
    assert 160 * 7 / 8 <= phases["replan.decode"].ms < 160 + SLACK_MS


@patient
def test_a_stall_before_the_first_piece_is_prefill_and_one_after_it_is_decode() -> None:
    before, after = by_name(made("cut before the first piece")), by_name(made("cut after the first piece"))
    assert before["replan.prefill"].ms > 50
    assert before["replan.decode"].ms == 0
    assert after["replan.decode"].ms > after["replan.prefill"].ms


def test_compression_and_replanning_say_how_many_tokens_they_left() -> None:
    planner = Recorder()
    result = call(planner, LINES, budget=150)
    phases = by_name(result)
    assert phases["context_compress"].tokens == phases["replan"].tokens == result.tokens_after


@patient
def test_a_slow_compressor_s_time_is_its_own_and_leaves_less_for_the_planner() -> None:
    class Slow(Compressor):
        name = "slow"

        def compress(self, call: OpenCall) -> list[Line]:
            time.sleep(0.3)
            return LINES[:1]

    result = call(planners.create("fake-hanging"), LINES, budget=150, slo_ms=400, how=Slow())
    phases = by_name(result)
    assert result.status == "cut"
    assert phases["context_compress"].ms >= 300
    assert phases["replan"].ms <= 100 + SLACK_MS
    assert 400 <= result.latency_ms <= 400 + SLACK_MS


def test_phases_timed_before_the_call_get_negative_starts() -> None:
    clock = PhaseClock()
    with clock.phase("sense"):
        time.sleep(0.02)
    with pool_of(Recorder()) as pool:
        path = CallPath(pool, {"pruned": Mode(TEMPLATE, (Fit(compressor("recency")),))})
        result = path.run(path.open(LINES, "pruned", clock=clock))
    sense, compress = result.clock.phases[:2]
    assert sense.name == "sense"
    assert sense.ms >= 20
    assert sense.start_ms + sense.ms <= 0 <= compress.start_ms


def test_a_phase_that_raises_is_timed_all_the_same() -> None:
    clock = PhaseClock()
    with suppress(RuntimeError), clock.phase("retrieve"):
        time.sleep(0.01)
        raise RuntimeError("broken")
    assert [phase.name for phase in clock.phases] == ["retrieve"]
    assert clock.phases[0].ms >= 10


def test_a_recorded_answer_can_stand_in_for_the_planner() -> None:
    planner = Recorder()
    with pool_of(planner) as pool:
        path = CallPath(pool, {"pruned": Mode(TEMPLATE, (Fit(compressor("recency")),))})
        request = path.open(LINES, "pruned", budget=150, deadline=Deadline(800))
        asked = []

        def recorded(prompt: object, deadline: Deadline) -> Answer:
            asked.append((prompt, deadline))
            return Answer("goto(hall)", "done", queue_ms=1.0, prefill_ms=2.0, decode_ms=3.0)

        result = path.run(request, ask=recorded)
    assert planner.seen == []
    assert [deadline for _, deadline in asked] == [request.deadline]
    assert (result.status, str(result.plan)) == ("ok", "goto(hall)")
    assert [by_name(result)[name].ms for name in PARTS] == pytest.approx([1.0, 2.0, 3.0])
