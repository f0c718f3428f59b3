"""Planners that never come back: their place is filled, and there is an end to patience."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from callpath_kit import SLACK_MS, patient, pool_of, prompt_of, until

from brace.context import Tokenizer, WordTokenizer
from brace.planners import Answer, Deadline, Limits, Planner, PlannerPool, Prompt
from brace.planners import pool as pool_module
from brace.planners.pool import MOST_HUNG
from brace.registry import planners


class Moody(Planner):
    """Hangs on prompts that say so until it is released, deaf to its deadline; answers all others at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tokenizer: Tokenizer = WordTokenizer()
        self.release = threading.Event()
        self.hung: list[str] = []
        self.inside = self.most = 0
        self._guard = threading.Lock()

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
        if "hang" in prompt.text:
            self.hung.append(prompt.text)
            self.release.wait(3600)
            yield "late()"
            return
        with self._guard:
            self.inside += 1
            self.most = max(self.most, self.inside)
        time.sleep(0.005)
        with self._guard:
            self.inside -= 1
        yield f"goto({prompt.text})"

    def threads(self) -> int:
        return sum(thread.name == f"planner {self.name}" for thread in threading.enumerate())


def ask(pool: PlannerPool, text: str, slo_ms: float) -> Answer:
    with Deadline(slo_ms) as deadline:
        answer = pool.ask(prompt_of(text), deadline)
        assert deadline.elapsed_ms() <= slo_ms + SLACK_MS
    return answer


@patient
def test_a_hung_planner_s_place_is_filled_and_the_next_call_succeeds() -> None:
    planner = Moody("moody")
    with pool_of(planner) as pool:
        assert ask(pool, "hang", 60).status == "cut"
        answer = ask(pool, "hall", 20_000)
        planner.release.set()
    assert (answer.status, answer.text) == ("done", "goto(hall)")
    # It waited for the place, and for no longer than it takes to give the hung call up.
    assert answer.queue_ms < pool_module.HUNG_AFTER_S * 1e3 + 2 * SLACK_MS


@patient
def test_a_call_already_waiting_behind_a_hung_one_gets_the_new_place() -> None:
    planner = Moody("moody behind")
    with pool_of(planner) as pool:
        answers: list[Answer] = []
        hung = threading.Thread(target=lambda: answers.append(ask(pool, "hang", 100)), daemon=True)
        hung.start()
        until(lambda: planner.hung != [])
        assert ask(pool, "hall", 20_000).status == "done"
        hung.join(20)
        planner.release.set()
    assert [answer.status for answer in answers] == ["cut"]


@patient
def test_one_hang_does_not_hold_up_a_pool_of_two() -> None:
    planner = Moody("moody of two")
    with pool_of(planner, workers=2) as pool:
        assert ask(pool, "hang", 60).status == "cut"
        assert ask(pool, "hall", 20_000).queue_ms < SLACK_MS
        planner.release.set()


@patient
def test_a_hung_call_that_comes_back_is_forgotten_and_leaves_no_extra_worker() -> None:
    planner = Moody("moody and back")
    with pool_of(planner) as pool:
        for number in range(3):
            assert ask(pool, f"hang {number}", 500).status == "cut"
        assert ask(pool, "hall", 20_000).text == "goto(hall)"
        assert planner.threads() == 4
        planner.release.set()
        until(lambda: planner.threads() == 1)
        answers: list[str] = []
        askers = [
            threading.Thread(
                target=lambda n=n: answers.append(ask(pool, f"room {n}", 20_000).text), daemon=True
            )
            for n in range(6)
        ]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join(20)
    assert sorted(answers) == [f"goto(room {n})" for n in range(6)]
    assert planner.most == 1


@patient
def test_a_planner_that_listens_is_late_but_not_hung() -> None:
    planner = planners.create("fake-fixed", {"prefill_ms": 3_600_000})
    with pool_of(planner) as pool:
        before = sum(thread.name == "planner fake-fixed" for thread in threading.enumerate())
        assert [ask(pool, "prompt", 30).status for _ in range(4)] == ["cut"] * 4
        time.sleep(pool_module.HUNG_AFTER_S + 0.05)
        ask(pool, "prompt", 30)
        assert sum(thread.name == "planner fake-fixed" for thread in threading.enumerate()) <= before + 1


@patient
def test_too_many_hung_calls_are_a_clear_failure_until_they_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool_module, "HUNG_AFTER_S", 0.02)
    planner = Moody("often hung")
    with pool_of(planner) as pool:
        answers = []
        while not answers or answers[-1].status != "failed":
            assert len(answers) < 10 * MOST_HUNG
            answers.append(ask(pool, f"hang {len(answers)}", 80))
        assert {answer.status for answer in answers[:-1]} <= {"cut", "shed"}
        assert answers[-1].error == f"planner 'often hung' has {MOST_HUNG} hung calls"
        # The last one allowed to run hangs, too, before anyone can know.
        assert MOST_HUNG <= len(planner.hung) <= MOST_HUNG + 1
        started = time.perf_counter()
        assert ask(pool, "hall", 20_000).status == "failed"
        assert time.perf_counter() - started < SLACK_MS / 1e3
        planner.release.set()
        until(lambda: planner.threads() <= 2)
        assert ask(pool, "hall", 20_000).text == "goto(hall)"


@patient
def test_a_planner_that_exits_its_thread_does_not_cost_the_pool_its_worker() -> None:
    class Exits(Moody):
        def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str]:
            if "exit" in prompt.text:
                raise SystemExit(1)
            return super().stream(prompt, limits)

    planner = Exits("exits")
    with pool_of(planner) as pool:
        assert ask(pool, "exit", 1000).status == "failed"
        answer = ask(pool, "hall", 20_000)
    assert answer.status == "done"
    assert answer.queue_ms < SLACK_MS
