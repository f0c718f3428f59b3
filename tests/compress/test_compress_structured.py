"""`structured` really summarises: shorter, by rules, each kind in its own way, in linear time."""

from __future__ import annotations

import time

import pytest
from compress_contexts import TOKENIZERS, big_history, every_grain, histories, lines_of, total
from hypothesis import given, settings

from brace.callpath import OpenCall
from brace.callpath.compress import Structured
from brace.callpath.compress.structured import summarise
from brace.context import Kind, Segment

WORDS = TOKENIZERS["words"]


def texts(history: list[Segment], room: int, grain: str = "segment") -> list[str]:
    request = OpenCall(lines=lines_of(history), room=room, tokenizer=WORDS)
    return [line.text for line in Structured(grain).compress(request)]  # type: ignore[arg-type]


def summary(*history: Segment) -> list[str]:
    return [segment.text for segment in summarise(history)]


@pytest.mark.parametrize("kind", ["observation", "message", "failure", "retrieved"])
def test_what_is_said_again_becomes_one_line_with_its_count(kind: Kind) -> None:
    said = [Segment(kind, "the door is shut", step) for step in (2, 3, 7)]
    made = summarise(said)
    assert [(segment.text, segment.step) for segment in made] == [("the door is shut (3x since step 2)", 7)]


def test_things_that_differ_in_their_numbers_only_are_one_and_the_newest_numbers_stay() -> None:
    seen = [Segment("observation", f"ball at ({step}, -{step}.5)", step) for step in range(1, 5)]
    assert summary(*seen) == ["ball at (4, -4.5) (4x since step 1)"]


def test_different_things_stay_apart() -> None:
    seen = [Segment("observation", text, step) for step, text in enumerate(["shut", "open", "shut", "ajar"])]
    assert sorted(summary(*seen)) == ["ajar", "open", "shut (2x since step 0)"]


def test_agents_are_not_mixed_up() -> None:
    seen = [Segment("observation", "door shut", step, agent) for step in range(3) for agent in (None, 0, 1)]
    made = summarise(seen)
    assert {segment.agent for segment in made} == {None, 0, 1}
    assert all(segment.text == "door shut (3x since step 0)" for segment in made)


def test_actions_become_one_run_length_history() -> None:
    done = ["goto(kitchen)", "goto(hall)", "goto(hall)", "pickup(ball)", "goto(kitchen)"]
    acted = [Segment("action", text, step, 0) for step, text in enumerate(done, start=1)]
    assert summary(*acted) == ["1-3 goto x3, 4 pickup, 5 goto"]


def test_failures_are_grouped_by_what_failed_with_the_last_step() -> None:
    failed = [
        Segment("failure", text, step) for step, text in enumerate(["no path", "grip lost", "no path"], 4)
    ]
    made = {segment.text: segment.step for segment in summarise(failed)}
    assert made == {"grip lost": 5, "no path (2x since step 4)": 6}


def test_old_plans_become_their_number_and_the_last_of_them() -> None:
    plans = [Segment("plan", f"goto({place})", step) for step, place in enumerate(["hall", "attic", "shed"])]
    assert summary(*plans) == ["3 earlier plans, last of step 2: goto(shed)"]


def test_one_of_a_kind_is_not_rewritten() -> None:
    only = Segment("observation", "door shut", 3, 1)
    assert summarise([only])[0] is only


@every_grain
def test_summaries_are_what_survives_of_a_long_repeated_history(grain: str) -> None:
    history = [Segment("task", "tidy")]
    for step in range(1, 101):
        history += [
            Segment("observation", "the door is shut", step),
            Segment("action", "goto(door)", step),
            Segment("failure", "door locked", step),
        ]
    kept = texts(history, 110, grain)
    assert "[observation 100] the door is shut (100x since step 1)\n" in kept
    assert "[action 100] 1-100 goto x100\n" in kept
    assert "[failure 99] door locked (99x since step 1)\n" in kept, "the last failure is a floor of its own"
    assert "[failure 100] door locked\n" in kept


@every_grain
def test_the_newest_observation_of_each_agent_is_there_verbatim(grain: str) -> None:
    history = [Segment("task", "tidy")]
    history += [
        Segment("observation", f"agent {agent} sees door {'abcdefgh'[step % 8]} shut", step, agent)
        for step in range(80)
        for agent in range(3)
    ]
    kept = texts(history, 160, grain)
    for agent in range(3):
        assert f"[observation 79 a{agent}] agent {agent} sees door h shut\n" in kept


def test_room_that_is_left_is_filled_with_the_newest_originals() -> None:
    history = [Segment("observation", "door shut", step) for step in range(50)]
    kept = texts(history, 120)
    assert "[observation 49] door shut (50x since step 0)\n" in kept
    originals = [text for text in kept if "since" not in text]
    assert len(originals) > 5
    assert originals == [f"[observation {step}] door shut\n" for step in range(50 - len(originals), 50)]


def test_failures_go_before_observations_and_those_before_actions() -> None:
    history = [Segment("failure", "door locked", step) for step in (1, 2)]
    history += [Segment("action", "goto(hall)", step) for step in (3, 4)]
    history += [Segment("observation", "lamp lit", step) for step in (3, 4)]
    history += [Segment("failure", "arm jammed", 5)]
    ranked = [
        "[failure 5] arm jammed\n",  # a floor
        "[failure 2] door locked (2x since step 1)\n",
        "[observation 4] lamp lit\n",  # the newest, verbatim: fresher in place than its summary
        "[observation 4] lamp lit (2x since step 3)\n",
        "[action 4] 3-4 goto x2\n",
    ]
    for number in range(1, len(ranked) + 1):
        room = sum(map(WORDS.count, ranked[:number]))
        assert set(texts(history, room)) == set(ranked[:number])


def test_a_superseded_goal_does_not_draw_the_summary_to_the_head() -> None:
    history = [Segment("goal", "old"), Segment("goal", "new"), Segment("safety", "never run")]
    history += [Segment("observation", "door shut", step) for step in range(20)]
    kept = texts(history, 70)
    summary_at = next(i for i, text in enumerate(kept) if "20x" in text)
    assert summary_at > kept.index("[safety 0] never run\n")


@settings(deadline=None, max_examples=80)
@given(histories)
def test_a_summary_says_no_more_than_a_few_words_for_each_segment(history: list[Segment]) -> None:
    # No filler: each kind and agent yields at most one segment for each one it had.
    made = summarise(history)
    assert len(made) <= len(history)
    assert {(s.kind, s.agent) for s in made} == {(s.kind, s.agent) for s in history}
    assert [s.step for s in made] == sorted(s.step for s in made)


def test_the_summary_of_a_day_is_a_small_part_of_it() -> None:
    history = [s for s in big_history(2000) if s.kind != "action"]
    assert total(lines_of(summarise(history))) < total(lines_of(history)) / 20


def test_time_grows_linearly_with_the_context() -> None:
    def fastest(size: int) -> float:
        lines = lines_of(big_history(size))
        for line in lines:
            line.spans(WORDS)
        took = []
        for _ in range(3):
            started = time.process_time()
            Structured().compress(OpenCall(lines=lines, room=1000, tokenizer=WORDS))
            took.append(time.process_time() - started)
        return min(took)

    assert fastest(20_000) < 20 * fastest(2000)
