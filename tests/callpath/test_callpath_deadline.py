"""A deadline starts on entering, knows how late it is, and wakes whoever waits."""

from __future__ import annotations

import math
import threading
import time

import pytest
from callpath_kit import background, patient

from brace.planners import Deadline


@patient
def test_it_starts_on_entering_not_when_it_is_made() -> None:
    deadline = Deadline(10_000)
    time.sleep(0.4)
    with deadline:
        assert deadline.elapsed_ms() < 350


def test_elapsed_and_remaining_add_up_to_the_limit() -> None:
    with Deadline(60_000) as deadline:
        time.sleep(0.02)
        before, left, after = deadline.elapsed_ms(), deadline.remaining_s() * 1e3, deadline.elapsed_ms()
    assert 20 <= before <= 60_000 - left <= after


def test_after_the_block_it_says_how_long_the_block_took() -> None:
    with Deadline(1000) as deadline:
        time.sleep(0.02)
    taken = deadline.elapsed_ms()
    time.sleep(0.02)
    assert deadline.elapsed_ms() == taken >= 20


def test_the_time_is_kept_when_the_block_raises() -> None:
    deadline = Deadline(1000)
    with pytest.raises(RuntimeError, match="from within"), deadline:
        raise RuntimeError("from within")
    taken = deadline.elapsed_ms()
    time.sleep(0.01)
    assert deadline.elapsed_ms() == taken


def test_it_expires_when_its_time_is_up_and_stays_so() -> None:
    with Deadline(20) as deadline:
        time.sleep(0.03)
        assert deadline.expired()
        assert deadline.remaining_s() < 0
    assert deadline.expired()


def test_before_its_time_it_is_not_expired() -> None:
    with Deadline(60_000) as deadline:
        assert not deadline.expired()


def test_without_a_limit_it_never_expires() -> None:
    with Deadline(None) as deadline:
        assert (deadline.remaining_s(), deadline.limit_ms) == (math.inf, math.inf)
        assert not deadline.expired()


@patient
def test_entered_again_it_gives_the_whole_time_once_more() -> None:
    deadline = Deadline(400)
    with deadline:
        time.sleep(0.41)
    with deadline:
        assert 0 <= deadline.elapsed_ms() < 350
        time.sleep(0.41)
        assert deadline.elapsed_ms() >= 410
        assert deadline.expired()


def test_cancelling_ends_it_at_once_and_the_first_cause_is_kept() -> None:
    with Deadline(None) as deadline:
        deadline.cancel("the goal changed")
        deadline.cancel("a hazard")
        assert deadline.expired()
    assert deadline.cancelled_by == "the goal changed"


def test_wait_returns_true_when_the_work_is_done() -> None:
    done = threading.Event()
    with Deadline(60_000) as deadline:

        def work() -> None:
            time.sleep(0.02)
            done.set()
            deadline.wake()

        with background(work):
            assert deadline.wait(done) is True
        assert deadline.elapsed_ms() < 10_000


def test_wait_is_true_even_after_the_deadline_when_the_work_is_done() -> None:
    done = threading.Event()
    done.set()
    with Deadline(0) as deadline:
        assert deadline.wait(done) is True


@patient
def test_wait_gives_up_at_the_deadline() -> None:
    with Deadline(30) as deadline:
        assert deadline.wait(threading.Event()) is False
        assert deadline.expired()
        assert 30 <= deadline.elapsed_ms() < 1000


def test_wait_gives_up_after_its_own_time_before_the_deadline() -> None:
    with Deadline(60_000) as deadline:
        assert deadline.wait(threading.Event(), poll_s=0.02) is False
        assert not deadline.expired()
        assert 20 <= deadline.elapsed_ms() < 10_000


@pytest.mark.parametrize("limit_ms", [None, 60_000])
def test_wait_wakes_when_another_thread_cancels(limit_ms: float | None) -> None:
    with Deadline(limit_ms) as deadline:

        def cancel() -> None:
            time.sleep(0.02)
            deadline.cancel("the goal changed")

        with background(cancel):
            assert deadline.wait(threading.Event()) is False
        assert 20 <= deadline.elapsed_ms() < 10_000
