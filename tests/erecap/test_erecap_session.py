"""A later call pays for what is new, and reads the same as if everything had been read at once."""

from __future__ import annotations

import pytest
import torch
from erecap_kit import (
    EVERY,
    LAYERS,
    FakeScorer,
    close,
    engine_of,
    greedy,
    kept_of,
    model_of,
    reference,
    row,
    text,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from brace.erecap import Engine, Keep, Session, Writing, write
from brace.erecap.session import common_prefix
from brace.errors import BraceError, ConfigError

families = pytest.mark.parametrize(("name", "attention"), EVERY)
PROMPT, SUFFIX = text(50), text(13, seed=2)


def all_at_once(name: str, attention: str, ids: list[int]) -> torch.Tensor:
    return engine_of(name, attention).prefill(row(ids)).context.logits


@families
def test_a_suffix_reads_as_if_all_was_read_at_once(name: str, attention: str) -> None:
    engine = engine_of(name, attention)
    session = Session(engine)
    first = session.read(PROMPT)
    assert (first.how, first.tokens, first.tokens_cached, first.changed_at) == ("read", 50, 0, None)
    second = session.read(PROMPT + SUFFIX)
    assert (second.how, second.tokens, second.tokens_cached, second.changed_at) == ("extended", 63, 50, None)
    assert (second.kept_last, second.kept_mean) == (63, 63.0)
    close(session.context.logits, all_at_once(name, attention, PROMPT + SUFFIX), attention)
    whole = engine.prefill(row(PROMPT + SUFFIX)).context
    close(greedy(engine, session.context, 4)[1], greedy(engine, whole, 4)[1], attention)


@families
def test_a_replaced_footer_reuses_the_common_beginning_exactly(name: str, attention: str) -> None:
    session = Session(engine_of(name, attention))
    session.read([*PROMPT, 11, 12, 13, 14])
    reading = session.read([*PROMPT, 21, *SUFFIX, 11, 12])
    assert (reading.how, reading.tokens_cached, reading.changed_at) == ("extended", 50, 50)
    close(session.context.logits, all_at_once(name, attention, [*PROMPT, 21, *SUFFIX, 11, 12]), attention)
    assert session.context.lengths() == [66] * LAYERS


@families
@pytest.mark.parametrize("broken", range(LAYERS))
def test_a_reading_that_breaks_off_leaves_the_session_whole(name: str, attention: str, broken: int) -> None:
    engine = engine_of(name, attention)
    session = Session(engine)
    session.read([*PROMPT, 11, 12])

    def fail(*_: object) -> None:
        raise InterruptedError

    hook = engine.backbone.layers[broken].register_forward_hook(fail)
    with pytest.raises(InterruptedError):
        session.read([*PROMPT, *SUFFIX])
    hook.remove()
    assert session.context.lengths() == [50] * LAYERS
    assert session.read([*PROMPT, *SUFFIX]).tokens_cached == 50
    close(session.context.logits, all_at_once(name, attention, [*PROMPT, *SUFFIX]), attention)


@families
def test_what_is_written_between_two_readings_leaves_no_trace(name: str, attention: str) -> None:
    engine = engine_of(name, attention)
    session = Session(engine)
    session.read(PROMPT)
    written = write(engine, session.context, Writing(7)).tokens[0]
    reading = session.read(PROMPT + SUFFIX)
    assert (reading.how, reading.tokens_cached) == ("extended", 50)
    close(session.context.logits, all_at_once(name, attention, PROMPT + SUFFIX), attention)
    write(engine, session.context, Writing(3))
    session.read(PROMPT + written + SUFFIX)
    close(session.context.logits, all_at_once(name, attention, PROMPT + written + SUFFIX), attention)


@families
def test_a_suffix_on_a_pruned_prompt_equals_the_masked_model(name: str, attention: str) -> None:
    engine = engine_of(name, attention)
    session = Session(engine, budget=60)
    # Segments leave slack under the budget, and a suffix may fill it.
    ids, segments = text(90), [place // 17 for place in range(90)]
    first = session.read(ids, segments=segments)
    kept = kept_of(
        engine.prefill(row(ids), keep=Keep(budget=60), segments=row(segments)), 0, torch.ones(1, 90)
    )
    suffix = SUFFIX[: 60 - first.kept_last]
    reading = session.read(ids + suffix)
    assert len(suffix) > 1
    assert (reading.how, reading.tokens_cached, reading.kept_last) == ("extended", 90, 60)
    close(session.context.logits[0], reference(name, attention, ids, kept, suffix)[-1], attention)


def test_the_same_prompt_again_costs_one_token_and_changes_nothing() -> None:
    session = Session(engine_of("llama"))
    session.read(PROMPT)
    before = session.context.logits.clone()
    reading = session.read(PROMPT)
    assert (reading.how, reading.tokens_cached, reading.kept_last) == ("extended", 49, 50)
    assert reading.changed_at is None
    close(session.context.logits, before)


def test_a_prompt_cut_short_is_read_from_what_is_there() -> None:
    session = Session(engine_of("llama"))
    session.read(PROMPT)
    reading = session.read(PROMPT[:40])
    assert (reading.how, reading.tokens_cached, reading.tokens) == ("extended", 39, 40)
    close(session.context.logits, all_at_once("llama", "sdpa", PROMPT[:40]))


def test_a_changed_beginning_starts_again_and_says_where() -> None:
    session = Session(engine_of("llama"))
    session.read(PROMPT)
    other = [*PROMPT[:10], 7 if PROMPT[10] != 7 else 8, *PROMPT[11:], *SUFFIX]
    reading = session.read(other)
    assert (reading.how, reading.tokens_cached, reading.changed_at) == ("restarted", 0, 10)
    close(session.context.logits, all_at_once("llama", "sdpa", other))
    assert session.read([*other, 5]).tokens_cached == len(other)


def test_how_much_must_be_shared_can_be_set() -> None:
    session = Session(engine_of("llama"), least_shared=0.0)
    session.read(PROMPT)
    other = [7 if PROMPT[0] != 7 else 8, *PROMPT[1:]]
    assert session.read(other).how == "extended"
    close(session.context.logits, all_at_once("llama", "sdpa", other))
    for share in (-0.1, 1.1):
        with pytest.raises(ConfigError, match="least_shared"):
            Session(engine_of("llama"), least_shared=share)


@pytest.mark.parametrize(
    ("name", "attention"), [("llama", "sdpa"), ("mistral-window", "sdpa"), ("glm4", "eager")]
)
def test_over_budget_is_compacted_to_the_budget_and_goes_on_from_there(name: str, attention: str) -> None:
    engine = engine_of(name, attention)
    session = Session(engine, budget=60, evict=False)
    assert session.read(PROMPT).how == "read"
    reading = session.read(PROMPT + SUFFIX)
    assert (reading.how, reading.tokens_cached, reading.kept_last) == ("compacted", 0, 60)
    lengths = engine.prefill(row(PROMPT + SUFFIX), keep=Keep(budget=60)).context.lengths()
    assert session.context.lengths() == lengths
    assert reading.kept_mean == pytest.approx(sum(lengths) / LAYERS)
    longer = PROMPT + SUFFIX + text(150, seed=8)
    reading = session.read(longer)
    assert (reading.how, reading.kept_last) == ("compacted", 60)
    assert int(session.context.next_position) == len(longer)


def test_compaction_respects_floors_and_whole_segments() -> None:
    engine = engine_of("llama")
    session = Session(engine, budget=60)
    session.read(PROMPT)
    ids = PROMPT + text(70, seed=3)
    floor = [place == 33 for place in range(120)]
    segments = [place // 6 for place in range(120)]
    reading = session.read(ids, floor=floor, segments=segments)
    assert reading.how == "compacted"
    kept = session.context.positions[-1][0].tolist()
    assert reading.kept_last == len(kept) <= 60
    alive = {segments[place] for place in kept}
    assert 33 // 6 in alive
    assert kept == [place for place in range(120) if segments[place] in alive]


class Moody(FakeScorer):
    """Planted scores, until it is told to spoil them."""

    spoil = False

    def score(self, given):  # type: ignore[no-untyped-def]
        return super().score(given) + (float("nan") if self.spoil else 0.0)


def test_a_failed_compaction_leaves_the_session_as_it_was() -> None:
    scorer = Moody(range(200))
    session = Session(Engine(model_of("llama"), scorer), budget=60)
    session.read(PROMPT)
    scorer.spoil = True
    with pytest.raises(BraceError):
        session.read(PROMPT[:40] + text(40, seed=9))
    scorer.spoil = False
    reading = session.read([*PROMPT, 5])
    close(session.context.logits, all_at_once("llama", "sdpa", [*PROMPT, 5]))
    assert reading.kept_last == 51


def test_a_prompt_beyond_the_positions_is_refused_and_leaves_the_session_as_it_was() -> None:
    session = Session(engine_of("llama"))
    session.read(PROMPT)
    with pytest.raises(ConfigError, match="positions"):
        session.read(PROMPT[:40] + text(500, seed=9))
    session.read([*PROMPT, 5])
    close(session.context.logits, all_at_once("llama", "sdpa", [*PROMPT, 5]))


def test_nothing_read_and_nothing_to_read_are_refused() -> None:
    session = Session(engine_of("llama"))
    with pytest.raises(ConfigError, match="nothing has been read"):
        _ = session.context
    with pytest.raises(ConfigError, match="empty"):
        session.read([])


edits = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 25), st.integers(0, 4)), min_size=1, max_size=5
)  # cut so many from the end, append so many, write so many


@settings(deadline=None, max_examples=25)
@given(edits, st.none() | st.integers(40, 90))
def test_any_history_of_edits_reads_like_the_last_prompt_alone_or_keeps_the_budget(
    steps: list[tuple[int, int, int]], budget: int | None
) -> None:
    engine = engine_of("qwen2-mixed")
    session, ids = Session(engine, budget), PROMPT
    session.read(ids)
    for index, (cut, grown, written) in enumerate(steps):
        ids = ids[: max(1, len(ids) - cut)] + text(grown, seed=20 + index)
        reading = session.read(ids)
        assert reading.tokens == len(ids) == int(session.context.next_position)
        assert 0 <= reading.tokens_cached < len(ids)
        assert (reading.tokens_cached == 0) == (reading.how in ("restarted", "compacted"))
        lengths = session.context.lengths()
        assert (reading.kept_last, reading.kept_mean) == (lengths[-1], pytest.approx(sum(lengths) / LAYERS))
        assert reading.kept_last == len(ids) or (budget is not None and reading.kept_last <= budget)
        if all(length == len(ids) for length in lengths):
            close(session.context.logits, engine.prefill(row(ids)).context.logits)
        if written:
            write(engine, session.context, Writing(written))


@given(st.lists(st.integers(0, 2), max_size=40), st.lists(st.integers(0, 2), max_size=40))
def test_the_common_beginning(one: list[int], other: list[int]) -> None:
    found = common_prefix(one, other)
    assert one[:found] == other[:found]
    assert found == min(len(one), len(other)) or one[found] != other[found]
