"""What compressors refuse, what tells them apart, and how they fare with a day's context."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np
import pytest
from compress_contexts import (
    ALL,
    CASES,
    TOKENIZERS,
    big_history,
    build,
    byte_level_bpe,
    every_case,
    every_grain,
    every_granular,
    histories,
    lines_of,
    total,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import processors

from brace.callpath import OpenCall
from brace.callpath.compress import ScoringCompressor
from brace.context import ContextBuffer, HfTokenizer, Line, Segment
from brace.errors import ConfigError, LimitExceededError
from brace.registry import compressors

WORDS = TOKENIZERS["words"]
BIG = big_history(20_000)
LONG = lines_of(BIG)
SEEN = [Segment("task", "tidy"), *(Segment("observation", "door shut", step) for step in range(40))]


def select(name: str, grain: str, history: Sequence[Segment], room: int, seed: int = 0) -> list[Line]:
    return build(name, grain).compress(
        OpenCall(lines=lines_of(history), room=room, tokenizer=WORDS, seed=seed)
    )


@every_case
def test_an_empty_context_stays_empty(name: str, grain: str) -> None:
    assert select(name, grain, [], 0) == []
    assert select(name, grain, [], 100) == []


@every_case
def test_floors_that_fill_the_room_exactly_are_all_that_survives(name: str, grain: str) -> None:
    lines = lines_of(SEEN)
    kept = build(name, grain).compress(OpenCall(lines=lines, room=lines[0].tokens, tokenizer=WORDS))
    assert [line.text for line in kept] == ["[task 0] tidy\n"]


@every_case
def test_a_context_of_floors_only_survives_whole(name: str, grain: str) -> None:
    lines = lines_of([Segment("task", "tidy"), Segment("safety", "never run")])
    assert build(name, grain).compress(OpenCall(lines=lines, room=total(lines) + 5, tokenizer=WORDS)) == lines


@pytest.mark.parametrize(("name", "grain"), [*CASES, ("none", "")])
def test_floors_that_do_not_fit_are_an_error_that_says_so(name: str, grain: str) -> None:
    lines = lines_of([Segment("task", "tidy the whole house"), Segment("observation", "door shut")])
    least = lines[0].tokens
    with pytest.raises(LimitExceededError, match="raise the budget") as caught:
        build(name, grain).compress(OpenCall(lines=lines, room=least - 1, tokenizer=WORDS))
    assert (caught.value.kind, caught.value.limit) == ("tokens", least - 1)
    assert caught.value.value == (total(lines) if name == "none" else least)


@settings(deadline=None, max_examples=50)
@given(history=histories, short=st.integers(1, 5))
def test_none_returns_all_or_refuses(history: list[Segment], short: int) -> None:
    lines = lines_of(history)
    assert build("none").compress(OpenCall(lines=lines, room=total(lines), tokenizer=WORDS)) == lines
    with pytest.raises(LimitExceededError, match="choose a compressor or raise the budget"):
        build("none").compress(OpenCall(lines=lines, room=total(lines) - short, tokenizer=WORDS))


@every_grain
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_scores_that_are_not_finite_are_an_error_that_names_the_method(grain: str, bad: float) -> None:
    class Broken(ScoringCompressor):
        name = "broken"

        def score(self, lines: Sequence[Line], call: OpenCall) -> list[np.ndarray]:
            scores = [np.zeros(line.tokens) for line in lines]
            scores[1][-1] = bad
            return scores

    with pytest.raises(ConfigError, match=r"'broken'.*finite"):
        Broken(grain).compress(OpenCall(lines=lines_of(BIG[:20]), room=60, tokenizer=WORDS))  # type: ignore[arg-type]


@every_granular
def test_an_unknown_granularity_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'segment'\? known: token, segment"):
        compressors.create(name, {"granularity": "segments"})


def test_the_methods_of_the_package_are_all_in_the_matrix() -> None:
    assert {"none", "random", "recency", "structured"} <= set(ALL)
    assert {name for name, _ in CASES} == set(ALL) - {"none"}


@every_grain
def test_recency_keeps_the_newest(grain: str) -> None:
    steps = [line.segment.step for line in select("recency", grain, SEEN, 200)[1:]]
    assert steps == list(range(40 - len(steps), 40))
    assert 15 < len(steps) < 30


@every_grain
def test_random_selects_differently_for_different_seeds(grain: str) -> None:
    texts = {"".join(line.text for line in select("random", grain, SEEN, 200, seed)) for seed in range(8)}
    assert len(texts) == 8


@every_grain
def test_random_has_no_favourites_among_old_and_new(grain: str) -> None:
    kept = [line for seed in range(30) for line in select("random", grain, SEEN, 200, seed)[1:]]
    older = total(line for line in kept if line.segment.step < 20)
    assert 0.4 < older / total(kept) < 0.6


def test_by_segment_the_best_line_that_fits_is_kept_though_a_better_one_does_not() -> None:
    history = [Segment("observation", "short", 1), Segment("observation", "long " * 50, 2)]
    assert [line.segment.step for line in select("recency", "segment", history, 20)] == [1]


def test_of_equal_scores_the_later_line_wins() -> None:
    class Flat(ScoringCompressor):
        name = "flat"

        def score(self, lines: Sequence[Line], call: OpenCall) -> list[np.ndarray]:
            return [np.ones(line.tokens) for line in lines]

    kept = Flat().compress(OpenCall(lines=lines_of(SEEN), room=60, tokenizer=WORDS))
    assert [line.segment.step for line in kept[1:]] == list(range(40 - len(kept) + 1, 40))


@pytest.mark.parametrize("trim", [False, True])
def test_words_never_melt_into_one_even_where_offsets_leave_spaces_out(trim: bool) -> None:
    backend = byte_level_bpe()
    backend.post_processor = processors.ByteLevel(trim_offsets=trim)  # some models' offsets are trimmed
    buffer = ContextBuffer(HfTokenizer(backend, "bpe"))
    buffer.append(Segment("observation", "the red door is open"))
    for room in range(2, buffer.tokens):
        kept = build("recency", "token").compress(
            OpenCall(lines=buffer.lines(), room=room, tokenizer=buffer.tokenizer)
        )
        # The first word of what is left may have lost its beginning, the others are whole.
        whole_words = " ".join(kept[0].text.split()[1:])
        assert "[observation 0] the red door is open".endswith(whole_words)


@every_granular
@pytest.mark.parametrize("room", [500, 5000])
def test_by_token_a_long_context_meets_the_room_exactly(name: str, room: int) -> None:
    kept = build(name, "token").compress(OpenCall(lines=LONG, room=room, tokenizer=WORDS, seed=3))
    assert total(kept) == room


@every_case
def test_twenty_thousand_lines_compress_in_no_time(name: str, grain: str) -> None:
    lines = lines_of(BIG)
    started = time.process_time()
    build(name, grain).compress(OpenCall(lines=lines, room=2000, tokenizer=WORDS))
    assert time.process_time() - started < 2.0
