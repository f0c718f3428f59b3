"""The growing context: counted once, snapshots that stay, floors that move on, Eq. 4."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brace.context import (
    ContextBuffer,
    Growth,
    Kind,
    Line,
    PromptTemplate,
    Segment,
    WordTokenizer,
    fit_growth,
)
from brace.context.segments import said_again

KINDS: tuple[Kind, ...] = get_args(Kind)
HEAD = ("task", "goal", "safety")

segments = st.builds(
    Segment,
    st.sampled_from(KINDS),
    st.text(max_size=30) | st.sampled_from(["door is open", "two\nlines", "  spaced  out ", ""]),
    st.integers(0, 9),
    st.none() | st.integers(0, 2),
    st.none() | st.booleans(),
)
histories = st.lists(segments, max_size=25)


class Counting(WordTokenizer):
    """Remembers how much text it was asked to look at."""

    def __init__(self) -> None:
        self.characters = 0

    def count(self, text: str) -> int:
        self.characters += len(text)
        return super().count(text)

    def spans(self, text: str) -> list[tuple[int, int]]:
        self.characters += len(text)
        return super().spans(text)


def buffer_of(*history: Segment) -> ContextBuffer:
    buffer = ContextBuffer(WordTokenizer())
    buffer.extend(history)
    return buffer


def floors(*history: Segment) -> list[str]:
    return [line.segment.text for line in buffer_of(*history).lines() if line.floor]


@settings(deadline=None)
@given(histories)
def test_counting_as_it_grows_equals_counting_it_all(history: list[Segment]) -> None:
    buffer = ContextBuffer(WordTokenizer())
    for segment in history:
        buffer.append(segment)
        text = "".join(line.text for line in buffer.lines())
        assert buffer.tokens == WordTokenizer().count(text)
    assert [line.tokens for line in buffer.lines()] == [
        WordTokenizer().count(line.text) for line in buffer.lines()
    ]


@settings(deadline=None)
@given(histories)
def test_nothing_is_lost_and_each_segment_is_one_line(history: list[Segment]) -> None:
    buffer = buffer_of(*history)
    assert len(buffer) == len(history)
    assert Counter(line.segment for line in buffer.lines()) == Counter(history)
    assert all(line.text.count("\n") == 1 and line.text.endswith("\n") for line in buffer.lines())


@settings(deadline=None)
@given(histories)
def test_head_kinds_stand_first_and_each_part_keeps_the_order_of_arrival(history: list[Segment]) -> None:
    expected = [s for s in history if s.kind in HEAD] + [s for s in history if s.kind not in HEAD]
    assert [line.segment for line in buffer_of(*history).lines()] == expected


@settings(deadline=None)
@given(histories, histories)
def test_a_snapshot_is_not_changed_by_what_comes_later(early: list[Segment], late: list[Segment]) -> None:
    buffer = buffer_of(*early)
    snapshot = buffer.lines()
    copies = [replace(line) for line in snapshot]
    buffer.extend(late)
    assert snapshot == copies


def test_a_snapshot_keeps_its_floors_when_a_newer_plan_supersedes_the_old_one() -> None:
    buffer = buffer_of(Segment("plan", "old", agent=0))
    snapshot = buffer.lines()
    buffer.append(Segment("plan", "new", agent=0))
    assert [line.floor for line in snapshot] == [True]
    assert [line.floor for line in buffer.lines()] == [False, True]


@pytest.mark.parametrize("kind", ["goal", "plan", "failure"])
def test_of_kinds_that_supersede_only_each_agent_s_latest_is_never_cut(kind: Kind) -> None:
    kept = floors(
        Segment(kind, "first of 0", agent=0), Segment(kind, "first of 1", agent=1),
        Segment(kind, "first of all"), Segment(kind, "second of 0", agent=0),
        Segment(kind, "third of 0", agent=0), Segment(kind, "second of all"),
    )  # fmt: skip
    assert kept == ["first of 1", "third of 0", "second of all"]


def test_one_kind_does_not_supersede_another() -> None:
    assert floors(Segment("goal", "g"), Segment("plan", "p"), Segment("failure", "f")) == ["g", "p", "f"]


@pytest.mark.parametrize("kind", ["task", "safety"])
def test_every_task_and_safety_line_is_never_cut(kind: Kind) -> None:
    assert floors(Segment(kind, "a"), Segment(kind, "b"), Segment(kind, "c")) == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["observation", "action", "message", "retrieved"])
def test_history_may_be_cut_unless_it_is_flagged(kind: Kind) -> None:
    assert floors(Segment(kind, "cut me"), Segment(kind, "keep me", floor=True), Segment(kind, "me too")) == [
        "keep me"
    ]


@pytest.mark.parametrize("kind", ["task", "goal", "safety", "plan", "failure"])
def test_a_flag_can_free_a_line_that_would_never_be_cut(kind: Kind) -> None:
    assert floors(Segment(kind, "free", floor=False)) == []


@settings(deadline=None)
@given(histories)
def test_contributions_by_step_and_agent_sum_to_the_context_s_tokens(history: list[Segment]) -> None:
    buffer = buffer_of(*history)
    expected: Counter[tuple[int, int | None]] = Counter()
    for line in buffer.lines():
        expected[line.segment.step, line.segment.agent] += line.tokens
    assert buffer.contributions() == dict(expected)
    assert sum(buffer.contributions().values()) == buffer.tokens


def test_contributions_handed_out_are_a_copy() -> None:
    buffer = buffer_of(Segment("task", "tidy up"))
    buffer.contributions().clear()
    assert sum(buffer.contributions().values()) == buffer.tokens > 0


@settings(deadline=None)
@given(agents=st.integers(1, 5), steps=st.integers(1, 12), words=st.integers(1, 9))
def test_a_steady_growth_is_recovered_for_any_number_of_agents(agents: int, steps: int, words: int) -> None:
    buffer = buffer_of(Segment("task", "tidy the kitchen"))
    start = buffer.tokens
    for step in range(1, steps + 1):
        buffer.extend(Segment("observation", "seen " * words, step, agent) for agent in range(agents))
    fitted = fit_growth(buffer.contributions(), agents)
    assert fitted == Growth(start, 7 + words, agents)  # `[observation 3 a1]` and the newline are seven
    assert fitted.at(steps) == buffer.tokens


def test_a_context_that_does_not_grow_never_gets_there() -> None:
    still = fit_growth({(0, None): 12}, agents=2)
    assert still == Growth(12, 0.0, 2)
    assert still.at(1000) == 12
    assert fit_growth({}, agents=1) == Growth(0, 0.0, 1)


def test_appending_to_a_long_context_looks_at_the_new_text_only() -> None:
    tokenizer = Counting()
    buffer = ContextBuffer(tokenizer)
    buffer.extend(Segment("observation", "the red door is shut " * 10, step) for step in range(2200))
    assert buffer.tokens > 100_000
    for kind in KINDS:
        for _ in range(2):  # the second one supersedes the first
            tokenizer.characters = 0
            segment = Segment(kind, "the blue door is open", 3000, 1)
            buffer.append(segment)
            assert tokenizer.characters == len(segment.render())
    tokenizer.characters = 0
    assert len(buffer.lines()) == len(buffer) == 2200 + 2 * len(KINDS)
    assert sum(buffer.contributions().values()) == buffer.tokens
    assert tokenizer.characters == 0


def test_a_line_works_its_spans_out_once() -> None:
    tokenizer = Counting()
    line = Line(Segment("task", "tidy"), "[task 0] tidy\n", 6)
    assert line.spans(tokenizer) == line.spans(tokenizer)
    assert tokenizer.characters == len(line.text)


def test_a_line_says_its_kind_step_and_agent() -> None:
    assert (
        Segment("observation", " a door\nand a box ", 7, 2).render()
        == "[observation 7 a2] a door | and a box\n"
    )
    assert Segment("task", "tidy").render() == "[task 0] tidy\n"


def test_a_template_stands_around_the_lines() -> None:
    lines = buffer_of(Segment("task", "tidy")).lines()
    assert PromptTemplate("Head\n{context}Foot\n").render(lines) == "Head\n[task 0] tidy\nFoot\n"


def test_messages_repeat_each_other_whoever_sends_them_and_events_never_do() -> None:
    said = [
        Segment("message", "room 2: box", 1, 0), Segment("observation", "room 2: box", 2),
        Segment("message", "room 3: key", 3, 0), Segment("message", "room 2: box", 4, 1),
        Segment("observation", "in room 2", 5, 0), Segment("observation", "in room 2", 6, 1),
        Segment("observation", "in room 2", 7, 1), Segment("action", "sync() done", 8, 0),
        Segment("action", "sync() done", 9, 0), Segment("failure", "slipped", 9, 0),
        Segment("failure", "slipped", 9, 0),
    ]  # fmt: skip
    assert said_again([segment.render() for segment in said]) == {0, 5}
    assert said_again(["no header\n", "no header\n"]) == {0}
    assert said_again([]) == set()
