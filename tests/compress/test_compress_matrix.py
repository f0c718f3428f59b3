"""Every registered compressor through the same checks, by token and by segment, in two tokenizers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from compress_contexts import (
    GRANULAR,
    HEAD,
    TOKENIZERS,
    build,
    every_case,
    every_choice,
    every_granular,
    every_tokenizer,
    floors,
    histories,
    lines_of,
    room_between,
    total,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from brace.callpath import OpenCall
from brace.context import Line, Segment

quick = settings(deadline=None, max_examples=40)


@dataclass(frozen=True)
class Situation:
    """A context with a room: from just its floors (share 0) to everything and a little more (1)."""

    history: list[Segment]
    share: float
    seed: int = 0

    def compress(self, name: str, grain: str, tokens: str = "words") -> tuple[list[Line], list[Line], int]:
        """The lines, what survived of them, and the room it had."""
        lines = lines_of(self.history, tokens)
        room = room_between(lines, self.share)
        request = OpenCall(lines=lines, room=room, tokenizer=TOKENIZERS[tokens], seed=self.seed)
        return lines, build(name, grain).compress(request), room


situations = st.builds(Situation, histories, st.floats(0, 1), st.integers(0, 9))


@every_tokenizer
@every_case
@quick
@given(situation=situations)
def test_what_survives_fits_the_room_and_is_counted_right(
    name: str, grain: str, tokens: str, situation: Situation
) -> None:
    _, kept, room = situation.compress(name, grain, tokens)
    assert total(kept) <= room
    assert [line.tokens for line in kept] == [TOKENIZERS[tokens].count(line.text) for line in kept]
    assert all(line.text.endswith("\n") and line.text.count("\n") == 1 for line in kept)


@every_tokenizer
@every_case
@quick
@given(situation=situations)
def test_floors_survive_verbatim_and_in_order(
    name: str, grain: str, tokens: str, situation: Situation
) -> None:
    lines, kept, _ = situation.compress(name, grain, tokens)
    assert floors(kept) == floors(lines)


@every_case
@quick
@given(situation=situations)
def test_what_survives_of_the_context_keeps_the_prompt_s_order(
    name: str, grain: str, situation: Situation
) -> None:
    lines, kept, _ = situation.compress(name, grain)
    place = {id(line.segment): index for index, line in enumerate(lines)}
    places = [place[id(line.segment)] for line in kept if id(line.segment) in place]
    assert places == sorted(set(places))


@every_case
@quick
@given(situation=situations)
def test_task_goal_and_safety_stay_at_the_head(name: str, grain: str, situation: Situation) -> None:
    _, kept, _ = situation.compress(name, grain)
    is_head = [line.segment.kind in HEAD for line in kept]
    assert is_head == sorted(is_head, reverse=True)


@pytest.mark.parametrize(
    ("name", "grain"), [(name, grain) for name in GRANULAR for grain in ("token", "segment")]
)
@quick
@given(history=histories, spare=st.integers(0, 3))
def test_a_context_that_fits_is_left_as_it_is(
    name: str, grain: str, history: list[Segment], spare: int
) -> None:
    lines = lines_of(history)
    request = OpenCall(lines=lines, room=total(lines) + spare, tokenizer=TOKENIZERS["words"])
    assert build(name, grain).compress(request) == lines


@every_tokenizer
@every_choice
@quick
@given(situation=situations)
def test_a_chooser_invents_nothing(name: str, grain: str, tokens: str, situation: Situation) -> None:
    lines, kept, _ = situation.compress(name, grain, tokens)
    original = {id(line.segment): line.text for line in lines}
    for line in kept:
        assert all(fragment in original[id(line.segment)] for fragment in line.text.split())


@every_tokenizer
@pytest.mark.parametrize("name", ["recency", "random"])
@quick
@given(situation=situations)
def test_by_segment_lines_are_whole_and_none_left_out_would_still_fit(
    name: str, tokens: str, situation: Situation
) -> None:
    lines, kept, room = situation.compress(name, "segment", tokens)
    survivors = {id(line) for line in kept}
    assert survivors <= {id(line) for line in lines}
    spare = room - total(kept)
    assert all(line.tokens > spare for line in lines if id(line) not in survivors)


@every_granular
@settings(deadline=None, max_examples=100)
@given(situation=situations)
def test_by_token_the_built_in_tokenizer_meets_the_room_exactly(name: str, situation: Situation) -> None:
    # Words with one space between them; a run of spaces is a token that a cut may strip with its neighbour.
    plain = [replace(segment, text=" ".join(segment.text.split()) or "idle") for segment in situation.history]
    lines, kept, room = replace(situation, history=plain).compress(name, "token")
    assert total(kept) == min(room, total(lines))


@every_case
@quick
@given(situation=situations)
def test_the_same_seed_makes_the_same_selection(name: str, grain: str, situation: Situation) -> None:
    first, again = (situation.compress(name, grain)[1] for _ in range(2))
    assert first == again


@every_case
@quick
@given(situation=situations)
def test_the_lines_handed_in_are_not_changed(name: str, grain: str, situation: Situation) -> None:
    lines, _, _ = situation.compress(name, grain)
    assert lines == lines_of(situation.history)
