"""Several agents, one planner: who runs when, who waits, who is never asked."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from callpath_kit import (
    SLACK_MS,
    TEMPLATE,
    Gate,
    Recorder,
    Scripted,
    compressor,
    patient,
    pool_of,
    prompt_of,
    until,
)

from brace.callpath import CallPath, Fit, Mode
from brace.errors import BraceError
from brace.planners import Answer, Deadline, Limits, PlannerPool, Prompt


class Watched(Deadline):
    """Tells when the call that it belongs to has been queued and waits for its answer."""

    def __init__(self, ms: float | None) -> None:
        super().__init__(ms)
        self.waiting = threading.Event()

    def wait(self, done: threading.Event, poll_s: float = math.inf) -> bool:
        self.waiting.set()
        return super().wait(done, poll_s)


@dataclass
class Asked:
    """A call made from a thread of its own; on return it stands in the queue (or runs)."""

    pool: PlannerPool
    text: str
    slo_ms: float | None = None
    answers: list[Answer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.deadline = Watched(self.slo_ms)
        self.thread = threading.Thread(target=self._ask, daemon=True)
        self.thread.start()
        assert self.deadline.waiting.wait(10)

    def _ask(self) -> None:
        with self.deadline:
            self.answers.append(self.pool.ask(prompt_of(self.text), self.deadline))

    def answer(self) -> Answer:
        self.thread.join(20)
        assert self.answers, f"{self.text} never came back"
        return self.answers[0]


def ask(pool: PlannerPool, text: str = "prompt", slo_ms: float | None = 20_000) -> Answer:
    with Deadline(slo_ms) as deadline:
        return pool.ask(prompt_of(text), deadline)


def test_with_one_worker_calls_run_one_at_a_time() -> None:
    inside, most, guard = 0, 0, threading.Lock()

    def script(prompt: Prompt, limits: Limits) -> Iterator[str]:
        nonlocal inside, most
        with guard:
            inside += 1
            most = max(most, inside)
        time.sleep(0.02)
        yield prompt.text
        with guard:
            inside -= 1

    with pool_of(Scripted(script)) as pool:
        asked = [Asked(pool, f"agent {n}") for n in range(6)]
        assert [call.answer().text for call in asked] == [f"agent {n}" for n in range(6)]
    assert most == 1


def test_with_two_workers_two_calls_run_at_once() -> None:
    both = threading.Barrier(2, timeout=15)

    def script(prompt: Prompt, limits: Limits) -> Iterator[str]:
        both.wait()
        yield prompt.text

    with pool_of(Scripted(script), workers=2) as pool:
        asked = [Asked(pool, f"agent {n}") for n in range(2)]
        assert [call.answer().status for call in asked] == ["done", "done"]


@patient
def test_waiting_for_another_s_call_is_queue_time_not_prefill_or_decode() -> None:
    planner = Gate()
    with pool_of(planner) as pool:
        first = Asked(pool, "first")
        planner.await_entry()
        second = Asked(pool, "second")
        time.sleep(0.4)
        planner.open.set()
        held, waited = first.answer(), second.answer()
    assert held.queue_ms < SLACK_MS
    assert held.prefill_ms >= 400
    assert waited.queue_ms >= 400
    assert waited.prefill_ms + waited.decode_ms < SLACK_MS


def test_the_earliest_deadline_is_served_first_and_none_last() -> None:
    planner = Gate()
    with pool_of(planner) as pool:
        asked = [Asked(pool, "blocker")]
        planner.await_entry()
        asked += [Asked(pool, "none"), Asked(pool, "late", 60_000), Asked(pool, "early", 30_000)]
        planner.open.set()
        assert [call.answer().status for call in asked] == ["done"] * 4
    assert planner.seen == ["blocker", "early", "late", "none"]


@patient
def test_a_deadline_counts_from_its_call_s_start_not_from_queueing() -> None:
    planner = Gate()
    with pool_of(planner) as pool:
        blocker = Asked(pool, "blocker")
        planner.await_entry()
        with Watched(60_200) as deadline:
            time.sleep(0.4)
            # This one has 60.0 s from now, the other 60.2 s from before: it ends earlier.
            fresh = Asked(pool, "fresh", 60_000)
            thread = threading.Thread(target=pool.ask, args=(prompt_of("spent"), deadline), daemon=True)
            thread.start()
            assert deadline.waiting.wait(10)
            planner.open.set()
            thread.join(20)
        assert {blocker.answer().status, fresh.answer().status} == {"done"}
    assert planner.seen == ["blocker", "spent", "fresh"]


def test_without_deadlines_the_first_come_is_served_first() -> None:
    planner = Gate()
    with pool_of(planner) as pool:
        asked = [Asked(pool, "blocker")]
        planner.await_entry()
        asked += [Asked(pool, f"agent {n}") for n in range(8)]
        planner.open.set()
        assert {call.answer().status for call in asked} == {"done"}
    assert planner.seen == ["blocker", *(f"agent {n}" for n in range(8))]


@patient
def test_a_call_whose_deadline_passes_in_the_queue_is_shed_and_never_seen() -> None:
    planner = Gate()
    with pool_of(planner) as pool:
        blocker = Asked(pool, "blocker")
        planner.await_entry()
        shed = ask(pool, "too late", slo_ms=60)
        assert (shed.status, shed.text, shed.error) == ("shed", "", "")
        assert 60 <= shed.queue_ms + 0.5 <= 60 + SLACK_MS
        assert (shed.prefill_ms, shed.decode_ms) == (0, 0)
        planner.open.set()
        assert blocker.answer().status == "done"
        assert ask(pool, "next").status == "done"
    assert planner.seen == ["blocker", "next"]


@patient
def test_a_shed_call_is_recorded_as_shed_with_all_its_time_in_the_queue() -> None:
    planner = Gate()
    with pool_of(planner) as pool:
        blocker = Asked(pool, "blocker")
        planner.await_entry()
        path = CallPath(pool, {"pruned": Mode(TEMPLATE, (Fit(compressor("recency")),))})
        result = path.run(path.open([], "pruned", deadline=Deadline(60)))
        planner.open.set()
        blocker.answer()
    phases = {phase.name: phase.ms for phase in result.clock.phases}
    assert (result.status, result.plan.is_empty) == ("shed", True)
    assert 60 <= result.latency_ms <= 60 + SLACK_MS
    assert phases["replan.queue"] == pytest.approx(phases["replan"], abs=SLACK_MS)
    assert phases["replan.prefill"] == phases["replan.decode"] == 0


@patient
def test_cancelling_a_running_call_returns_promptly_and_tells_the_planner() -> None:
    asked, told = threading.Event(), threading.Event()

    def script(prompt: Prompt, limits: Limits) -> Iterator[str]:
        yield "goto(hall)"
        asked.set()
        while not limits.expired():
            time.sleep(0.002)
        told.set()

    with pool_of(Scripted(script)) as pool:
        path = CallPath(pool, {"pruned": Mode(TEMPLATE, (Fit(compressor("recency")),))})
        deadline = Deadline(None)
        results = []
        request = path.open([], "pruned", deadline=deadline)
        thread = threading.Thread(target=lambda: results.append(path.run(request)), daemon=True)
        thread.start()
        assert asked.wait(10)
        cancelled = time.perf_counter()
        deadline.cancel("the goal changed")
        thread.join(20)
        spent_ms = (time.perf_counter() - cancelled) * 1e3
        assert told.wait(10)
    [result] = results
    assert (result.status, result.plan.is_empty) == ("cancelled", True)
    assert spent_ms < SLACK_MS


@patient
def test_cancelling_a_deaf_planner_s_call_returns_promptly_too() -> None:
    planner = Gate()
    with pool_of(planner) as pool:
        asked = Asked(pool, "deaf")
        planner.await_entry()
        cancelled = time.perf_counter()
        asked.deadline.cancel("a hazard")
        assert asked.answer().status == "cancelled"
        assert time.perf_counter() - cancelled < SLACK_MS / 1e3
        planner.open.set()


def test_a_call_cancelled_in_the_queue_or_before_is_never_seen() -> None:
    planner = Gate()
    with pool_of(planner) as pool:
        blocker = Asked(pool, "blocker")
        planner.await_entry()
        queued = Asked(pool, "queued")
        queued.deadline.cancel("a hazard")
        assert queued.answer().status == "cancelled"
        deadline = Deadline(None)
        deadline.cancel("a hazard")
        path = CallPath(pool, {"pruned": Mode(TEMPLATE, (Fit(compressor("recency")),))})
        assert path.run(path.open([], "pruned", deadline=deadline)).status == "cancelled"
        planner.open.set()
        blocker.answer()
        ask(pool, "next")
    assert planner.seen == ["blocker", "next"]


def test_the_first_call_is_cold_and_no_later_one() -> None:
    with pool_of(Recorder()) as pool:
        assert [ask(pool).cold for _ in range(3)] == [True, False, False]


def test_of_many_first_callers_one_is_cold() -> None:
    planner = Gate()
    with pool_of(planner) as pool:
        asked = [Asked(pool, f"agent {n}") for n in range(5)]
        planner.open.set()
        assert [call.answer().cold for call in asked] == [True] + [False] * 4


def test_a_closed_pool_takes_no_calls() -> None:
    pool = PlannerPool(Recorder())
    ask(pool)
    pool.close()
    with pytest.raises(BraceError, match="closed"):
        ask(pool)


def test_closing_lets_running_and_queued_calls_end_and_then_the_workers_go() -> None:
    planner = Gate()
    planner.name = "gate to close"
    with pool_of(planner, workers=2) as pool:
        asked = [Asked(pool, f"agent {n}") for n in range(4)]
        planner.await_entry()
        pool.close()
        planner.open.set()
        assert [call.answer().status for call in asked] == ["done"] * 4
    until(lambda: not any(thread.name == "planner gate to close" for thread in threading.enumerate()))


@pytest.mark.parametrize("workers", [0, -1])
def test_a_pool_without_workers_is_refused(workers: int) -> None:
    with pytest.raises(BraceError, match=rf"1 or more workers, not {workers}"):
        PlannerPool(Recorder(), workers)
