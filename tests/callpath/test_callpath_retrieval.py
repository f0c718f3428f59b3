"""Retrieval: what was learned before, inside the budget."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from callpath_kit import (
    TEMPLATE,
    TOKENIZERS,
    Recorder,
    budget_for,
    call,
    compressor,
    every_tokenizer,
    floors,
    histories,
    lines_of,
    shares,
    total,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from brace.callpath.retrieve import LexicalRetriever, Retriever
from brace.context import Line, Segment
from brace.errors import ConfigError
from brace.registry import retrievers

HISTORY = [
    Segment("task", "bring the cup"),
    *(Segment("observation", f"door {n} is shut", n) for n in range(40)),
    Segment("failure", "the cup slipped", 41),
]
NOTE = "a cup that slipped is held from below"
LINE = f"[retrieved 41] {NOTE}\n"


class Knows(Retriever):
    """Always finds the same texts and remembers what it was asked with."""

    name = "knows"

    def __init__(self, *texts: str, reserve: int = 20) -> None:
        self.texts, self.reserve = list(texts), reserve
        self.asked: list[Sequence[Line]] = []

    def retrieve(self, lines: Sequence[Line]) -> list[str]:
        self.asked.append(lines)
        return self.texts


def context_of(prompt: str) -> list[str]:
    """The prompt's own lines: neither the template's nor the retrieved ones."""
    inner = prompt.removeprefix(TEMPLATE.head).removesuffix(TEMPLATE.foot)
    return [line for line in inner.splitlines(keepends=True) if "[retrieved" not in line]


@pytest.mark.parametrize("grain", ["token", "segment"])
@every_tokenizer
@settings(deadline=None, max_examples=30)
@given(
    history=histories,
    share=shares,
    texts=st.lists(st.text(max_size=30) | st.just(NOTE), max_size=4),
    reserve=st.integers(1, 40),
)
def test_retrieval_stays_inside_the_budget(
    grain: str, tokens: str, history: list[Segment], share: float, texts: list[str], reserve: int
) -> None:
    planner = Recorder(TOKENIZERS[tokens])
    lines = lines_of(history, planner.tokenizer)
    budget = budget_for(lines, planner.tokenizer.count(TEMPLATE.render([])), share)
    result = call(
        planner,
        lines,
        budget=budget,
        how=compressor("recency", grain),
        retriever=Knows(*texts, reserve=reserve),
        inline=True,
    )
    for prompt in planner.seen:
        assert result.tokens_after == planner.tokenizer.count(prompt.text) == prompt.tokens <= budget


def test_what_is_found_is_added_as_retrieved_lines_after_the_context() -> None:
    planner = Recorder()
    lines = lines_of(HISTORY)
    call(planner, lines, retriever=Knows(NOTE, "second"))
    assert planner.seen[0].text == TEMPLATE.render(lines).replace(
        TEMPLATE.foot, LINE + "[retrieved 41] second\n" + TEMPLATE.foot
    )


def test_a_bound_call_keeps_the_reserve_free_of_context_for_what_is_found() -> None:
    lines = lines_of(HISTORY)
    with_note, without = Recorder(), Recorder()
    found = call(with_note, lines, budget=200, how=compressor("recency", "token"), retriever=Knows(NOTE))
    call(without, lines, budget=200, how=compressor("recency", "token"), retriever=Knows())
    assert LINE in with_note.seen[0].text
    assert TOKENIZERS["words"].count(without.seen[0].text) == 200 - 20
    assert context_of(with_note.seen[0].text) == context_of(without.seen[0].text)
    assert found.slack == 200 - found.tokens_after


def test_a_found_text_that_does_not_fit_is_left_out_and_a_shorter_one_takes_its_place() -> None:
    planner = Recorder()
    long = "word " * 90
    call(planner, lines_of(HISTORY), budget=200, retriever=Knows(long, "short"))
    assert "[retrieved 41] short\n" in planner.seen[0].text
    assert "word word" not in planner.seen[0].text


def test_a_context_that_fits_is_not_cut_for_the_sake_of_the_reserve() -> None:
    planner = Recorder()
    lines = lines_of(HISTORY)
    raw = planner.tokenizer.count(TEMPLATE.render(lines))
    result = call(planner, lines, budget=raw + 5, retriever=Knows(NOTE))
    assert [prompt.text for prompt in planner.seen] == [TEMPLATE.render(lines)]
    assert result.status == "ok"


def test_a_context_that_fits_uncompressed_is_sent_whatever_the_reserve() -> None:
    lines = lines_of(HISTORY)
    raw = TOKENIZERS["words"].count(TEMPLATE.render(lines))
    result = call(Recorder(), lines, budget=raw + 5, how=compressor("none"), retriever=Knows(NOTE))
    assert result.status == "ok"


@pytest.mark.parametrize("overrun", [False, True])
def test_floors_that_fit_the_budget_are_never_refused_for_the_reserve(overrun: bool) -> None:
    planner = Recorder()
    lines = lines_of(HISTORY)
    least = planner.tokenizer.count(TEMPLATE.render(floors(lines)))
    result = call(planner, lines, budget=least + 5, retriever=Knows(NOTE, reserve=20), overrun=overrun)
    assert (result.status, result.error) == ("ok", "")
    assert result.floor_overrun == 0
    assert all(line.text in planner.seen[0].text for line in floors(lines))


def test_an_overrun_leaves_no_room_for_retrieval() -> None:
    planner = Recorder()
    lines = lines_of(HISTORY)
    result = call(planner, lines, budget=40, retriever=Knows("x"), overrun=True)
    assert [prompt.text for prompt in planner.seen] == [TEMPLATE.render(floors(lines))]
    assert result.tokens_after - 40 == result.floor_overrun > 0


def test_the_retriever_is_asked_with_the_uncut_context() -> None:
    knows = Knows(NOTE)
    lines = lines_of(HISTORY)
    call(Recorder(), lines, budget=150, retriever=knows)
    assert knows.asked == [lines]


def test_the_retrieve_phase_says_how_long_the_prompt_is_now() -> None:
    result = call(Recorder(), lines_of(HISTORY), budget=200, retriever=Knows(NOTE))
    phases = {phase.name: phase for phase in result.clock.phases}
    before, after = phases["context_compress"].tokens, phases["retrieve"].tokens
    assert before is not None
    assert after == result.tokens_after == before + TOKENIZERS["words"].count(LINE)


def test_lexical_finds_the_note_that_shares_the_rarest_words_first() -> None:
    retriever = LexicalRetriever(["the door is blue", NOTE, "the stairs are steep", "water the plants"])
    assert retriever.retrieve(lines_of(HISTORY))[0] == NOTE


def test_lexical_asks_with_floors_and_the_newest_line_only() -> None:
    retriever = LexicalRetriever(["door 7", "shelf"])
    lines = lines_of([Segment("observation", "door 7", 1), Segment("observation", "shelf", 2)])
    assert retriever.retrieve(lines) == ["shelf"]


def test_lexical_gives_at_most_so_many_and_nothing_that_shares_no_word() -> None:
    retriever = LexicalRetriever([f"cup {n}" for n in range(9)] + ["zebra"], most=2)
    assert len(retriever.retrieve(lines_of(HISTORY))) == 2
    assert LexicalRetriever(["zebra"]).retrieve(lines_of(HISTORY)) == []
    assert LexicalRetriever().retrieve(lines_of(HISTORY)) == []


def test_lexical_remembers_new_notes() -> None:
    retriever = LexicalRetriever()
    retriever.remember(NOTE)
    assert retriever.retrieve(lines_of(HISTORY)) == [NOTE]


@pytest.mark.parametrize("options", [{"reserve": 0}, {"most": 0}, {"reserve": -5}])
def test_lexical_options_are_checked(options: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=r"lexical.*1 or more"):
        retrievers.create("lexical", options)


def test_the_lexical_retriever_s_note_reaches_the_planner() -> None:
    planner = Recorder()
    lines = lines_of(HISTORY)
    assert total(lines) > 200
    call(planner, lines, budget=200, retriever=LexicalRetriever([NOTE]))
    assert LINE in planner.seen[0].text
