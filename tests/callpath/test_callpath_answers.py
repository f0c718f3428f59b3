"""Every way a planner can behave, through the whole call: the status, the plan, the error, and the time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from callpath_kit import SLACK_MS, Gate, Scripted, call, patient

from brace.plan import Arg, Skill, SkillSet
from brace.planners import FunctionPlanner, Limits, Planner, Prompt
from brace.planners.pool import HUNG_AFTER_S
from brace.registry import planners

SKILLS = SkillSet([Skill("goto", (Arg("place", "name"),)), Skill("pickup", (Arg("thing", "name"),))])
PLAN = "goto(hall); pickup(cup)"
FIRST = "goto(hall)"
HANG_S = 3600.0
SOON = 20_000.0
"""An SLO that no planner which answers at all can miss."""
SHORT = 150.0
"""An SLO that a planner which stalls is sure to miss."""


def streams(*pieces: object, stall: bool = False, error: BaseException | None = None) -> Planner:
    """Gives the pieces, then stalls (deaf to its deadline), raises or ends."""

    def script(prompt: Prompt, limits: Limits) -> Iterator[str]:
        yield from pieces  # type: ignore[misc]
        if stall:
            time.sleep(HANG_S)
        if error is not None:
            raise error

    return Scripted(script)


def fake(name: str, **options: object) -> Planner:
    made: Planner = planners.create(name, options)
    return made


@dataclass
class Row:
    planner: Callable[[], Planner]
    status: str
    plan: str = ""
    error: str = ""
    """A part of the error text; empty: there is none."""
    output: str | None = None
    slo_ms: float = SOON


ROWS = {
    "a fixed latency": Row(lambda: fake("fake-fixed", text=PLAN), "ok", PLAN, output=PLAN),
    "a fixed latency beyond the SLO": Row(
        lambda: fake("fake-fixed", prefill_ms=HANG_S * 1e3, text=PLAN), "cut", output="", slo_ms=SHORT
    ),
    "a latency that grows beyond the SLO with the prompt": Row(
        lambda: fake("fake-fixed", ms_per_token=1e5, text=PLAN), "cut", output="", slo_ms=SHORT
    ),
    "a slow hand": Row(
        lambda: fake("fake-fixed", prefill_ms=0, decode_ms=8e6, text=PLAN), "cut", "", "line 1", "got", SHORT
    ),
    "a heavy tail": Row(lambda: fake("fake-heavy-tail", median_ms=5, text=PLAN), "ok", PLAN),
    "a heavy tail beyond the SLO": Row(
        lambda: fake("fake-heavy-tail", median_ms=1e8, text=PLAN), "cut", output="", slo_ms=SHORT
    ),
    "a dead server": Row(lambda: fake("fake-failing"), "failed", "", "ConnectionError: the fake server", ""),
    "a hang": Row(lambda: fake("fake-hanging", seconds=HANG_S), "cut", output="", slo_ms=SHORT),
    "chatter": Row(lambda: fake("fake-garbage"), "unparsable", "", "line 1, column"),
    "a plan within chatter": Row(
        lambda: fake("fake-garbage", text=f"{PLAN} is what I would do"), "unparsable", "", "expected ';'"
    ),
    "spaces": Row(lambda: fake("fake-garbage", text=" \n "), "empty"),
    "an unknown skill": Row(lambda: streams("goto(hall); fly(moon)"), "unparsable", "", "unknown skill"),
    "nothing": Row(streams, "empty", output=""),
    "an empty string": Row(lambda: FunctionPlanner(lambda text: ""), "empty"),
    "a function's text": Row(lambda: FunctionPlanner(lambda text: PLAN), "ok", PLAN),
    "a function's pieces": Row(lambda: FunctionPlanner(lambda text: PLAN.split(" ")), "ok", PLAN),
    "None": Row(lambda: FunctionPlanner(lambda text: None), "failed", "", "NoneType"),
    "a number": Row(lambda: FunctionPlanner(lambda text: 7), "failed", "", "int; expected text"),
    "pieces that are no text": Row(lambda: FunctionPlanner(lambda text: [PLAN, 7]), "failed", "", "int"),
    "bytes": Row(lambda: FunctionPlanner(lambda text: PLAN.encode()), "failed", "", "expected"),
    "a stream of None": Row(lambda: streams(None), "failed", "", "NoneType"),
    "no iterator at all": Row(lambda: Scripted(lambda prompt, limits: None), "failed", "", "TypeError"),
    "an error after a whole plan": Row(
        lambda: streams(PLAN, error=ValueError("no end")), "failed", "", "ValueError: no end", PLAN
    ),
    "an exit": Row(lambda: streams(error=SystemExit("bye")), "failed", "", "SystemExit", slo_ms=2000),
    "a whole plan, then a stall": Row(lambda: streams(PLAN, stall=True), "partial", PLAN, "", PLAN, SHORT),
    "a plan cut in a skill, then a stall": Row(
        lambda: streams("goto(hall); pick", "up(c", stall=True), "partial", FIRST, "end", slo_ms=SHORT
    ),
    "a plan cut in a name, then a stall": Row(
        lambda: streams("goto(hall); pick", stall=True), "partial", FIRST, "line 1", slo_ms=SHORT
    ),
    "less than a skill, then a stall": Row(
        lambda: streams("goto(ha", stall=True), "cut", "", "found end", "goto(ha", SHORT
    ),
    "chatter, then a stall": Row(lambda: streams("Sure! ", stall=True), "cut", "", "column", slo_ms=SHORT),
    "spaces, then a stall": Row(lambda: streams("  ", stall=True), "cut", slo_ms=SHORT),
    "its own truncation within a skill": Row(lambda: streams("goto(hall); pickup("), "partial", FIRST, "end"),
    "its own truncation after a name": Row(lambda: streams("goto(hall); pickup"), "partial", FIRST, "end"),
    "its own truncation within a name": Row(lambda: streams("goto(hall); pick"), "partial", FIRST, "pick"),
    "its own truncation after a semicolon": Row(lambda: streams("goto(hall); "), "ok", FIRST),
    "its own truncation in the first skill": Row(lambda: streams("goto(ha"), "unparsable", "", "found end"),
}  # fmt: skip


@pytest.mark.parametrize("behaviour", list(ROWS))
@patient
def test_a_call_ends_as_its_planner_s_behaviour_says_and_in_time(behaviour: str) -> None:
    row = ROWS[behaviour]
    planner = row.planner()
    started = time.perf_counter()
    result = call(planner, slo_ms=row.slo_ms, skills=SKILLS)
    spent_ms = (time.perf_counter() - started) * 1e3
    assert result.status == row.status, result.error
    assert str(result.plan) == row.plan
    assert (row.error in result.error) if row.error else result.error == ""
    if row.output is not None:
        assert result.output == row.output
        assert result.tokens_out == planner.tokenizer.count(row.output)
    cut = row.slo_ms == SHORT
    assert result.latency_ms <= spent_ms <= row.slo_ms + SLACK_MS
    assert (result.latency_ms >= row.slo_ms) == cut


def test_every_registered_fake_is_in_the_matrix() -> None:
    used = {row.planner().name for row in ROWS.values()}
    assert {name for name in planners.names() if name.startswith("fake-")} <= used


@patient
def test_a_slow_hand_is_cut_between_pieces_and_what_it_wrote_is_used() -> None:
    text = "; ".join(f"goto(room {n})" for n in range(16))
    planner = fake("fake-fixed", prefill_ms=0, decode_ms=8000, text=text)  # two skills a second
    result = call(planner, slo_ms=1600, skills=SKILLS)
    assert result.status == "partial"
    assert 1 <= len(result.plan) < 16
    assert text.startswith(str(result.plan))
    assert text.startswith(result.output)
    assert result.latency_ms <= 1600 + SLACK_MS


@patient
def test_a_planner_that_writes_for_ever_is_stopped_and_its_stream_closed() -> None:
    closed = []

    def script(prompt: Prompt, limits: Limits) -> Iterator[str]:
        try:
            while True:
                yield "goto(hall); "
                time.sleep(0.005)
        finally:
            closed.append(limits.expired())

    result = call(Scripted(script), slo_ms=SHORT, skills=SKILLS)
    assert result.status == "partial"
    assert len(result.plan) == result.output.count(";")
    end = time.perf_counter() + 10
    while not closed and time.perf_counter() < end:
        time.sleep(0.005)
    assert closed == [True]


@patient
def test_a_planner_that_gives_up_at_its_deadline_was_cut_not_broken() -> None:
    # What an HTTP client does: its timeout is what is left, and it raises when that is over.
    def script(prompt: Prompt, limits: Limits) -> Iterator[str]:
        yield "goto(hall); pick"
        while limits.remaining_s() > 0:
            time.sleep(min(limits.remaining_s(), 0.001))
        raise TimeoutError("read timed out")

    results = [call(Scripted(script), slo_ms=100, skills=SKILLS) for _ in range(8)]
    assert [(result.status, str(result.plan)) for result in results] == [("partial", FIRST)] * 8


def test_without_an_slo_a_call_waits_as_long_as_it_takes() -> None:
    result = call(fake("fake-fixed", prefill_ms=400, text=PLAN), slo_ms=None, skills=SKILLS)
    assert (result.status, str(result.plan)) == ("ok", PLAN)
    assert result.latency_ms >= 400


@patient
def test_an_answer_is_noticed_at_once_not_at_the_next_look_for_hung_calls() -> None:
    planner = fake("fake-fixed", prefill_ms=20, decode_ms=0, text=PLAN)
    assert min(call(planner, slo_ms=SOON).latency_ms for _ in range(3)) < 20 + HUNG_AFTER_S * 1e3 / 2


def test_a_call_whose_time_is_over_before_the_planner_is_asked_is_shed() -> None:
    planner = Gate()
    result = call(planner, slo_ms=0)
    assert (result.status, planner.seen, result.cold) == ("shed", [], False)
    assert [phase.name for phase in result.clock.phases] == ["context_compress"]


def test_the_proxy_planner_s_plan_is_read_in_both_modes() -> None:
    result = call(fake("fake-fixed"), slo_ms=SOON)
    assert result.status == "ok"
    assert [step.skill for step in result.plan.of(0)] == ["advance"]
    assert math.isfinite(float(result.plan.of(0)[0].args[-1]))
