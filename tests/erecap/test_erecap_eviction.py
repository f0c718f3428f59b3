"""Caches that outgrow their budget lose what is worth least, without reading anything again."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from erecap_kit import (
    EVERY,
    LAYERS,
    FakeScorer,
    close,
    engine_of,
    masked,
    model_of,
    row,
    scorer_of,
    text,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from brace.erecap import Engine, Keep, PrefixScorer, Session, pruning_layers
from brace.erecap.scorers import ScoreInput
from brace.errors import BraceError
from brace.registry import scorers

PROMPT, SUFFIX = text(50), text(13, seed=2)
CACHEABLE = ["predictor", "recency", "hidden-norm", "random"]


class Planted(FakeScorer):
    """Planted scores that can be cached."""

    cacheable = True


def engine(worth: list[float] | None = None, path: Any = "auto") -> Engine:
    return Engine(model_of("llama"), Planted(worth or range(600)), path)


@pytest.mark.parametrize(("name", "attention"), EVERY)
def test_news_see_what_is_left_and_what_is_left_has_seen_everything(name: str, attention: str) -> None:
    session = Session(engine_of(name, attention), budget=45)
    session.read(PROMPT[:40])
    reading = session.read(PROMPT[:40] + SUFFIX)
    assert (reading.how, reading.tokens_cached, reading.tokens_read) == ("evicted", 40, 13)
    kept = [set(layer[0].tolist()) for layer in session.context.positions]
    assert session.context.lengths() == Keep(budget=45).schedule(53, LAYERS).lengths()
    assert reading.kept_last == 45

    def unseen(layer: int) -> torch.Tensor:
        place = torch.arange(53)
        gone = torch.tensor([spot < 40 and spot not in kept[layer] for spot in range(53)])
        return gone[None, :] & (place[:, None] >= 40)

    expected = masked(name, attention, PROMPT[:40] + SUFFIX, unseen)[-1]
    close(session.context.logits[0], expected, attention)


@pytest.mark.parametrize("kind", CACHEABLE)
def test_cached_scores_give_the_scores_of_a_longer_text(kind: str) -> None:
    model = model_of("llama")
    one, layer = Engine(model, scorer_of(kind, model)), pruning_layers(LAYERS)[0]
    short = one.prefill(row(PROMPT), remember=True).context
    cached = short.scores(layer)
    assert cached is not None
    assert tuple(short.complete_scores()) == pruning_layers(LAYERS)
    again = one.scorer.rescore(layer, cached, short.positions[layer], torch.tensor([[62]]))
    whole = PrefixScorer(one, layer).scores(PROMPT + SUFFIX)[:50]
    assert torch.allclose(again[0].double(), whole.double(), atol=1e-4)


@pytest.mark.parametrize("path", ["eager", "static"])
@given(
    st.lists(st.integers(1, 25), min_size=2, max_size=9),
    st.integers(45, 90),
    st.integers(0, 2**16),
    st.data(),
)
@settings(max_examples=25, deadline=None)
def test_budgets_floors_and_order_hold_however_the_text_grows(
    path: str, steps: list[int], budget: int, seed: int, data: st.DataObject
) -> None:
    draw = torch.Generator().manual_seed(seed)
    worth = torch.rand(600, generator=draw).tolist()
    session = Session(engine(worth, path), budget=budget)
    ids = text(600, seed=seed % 97)
    marked = data.draw(st.sets(st.integers(0, 120), max_size=12))
    end, ways = 30, set()
    for step in steps:
        end += step
        floor = [place in marked for place in range(end)]
        reading = session.read(ids[:end], floor=floor)
        ways.add(reading.how)
        held = [set(layer[0].tolist()) for layer in session.context.positions]
        assert reading.kept_last == len(held[-1]) <= budget
        assert all(later <= earlier for earlier, later in pairwise(held))
        assert {place for place in marked if place < end} <= held[-1], "a floor has gone"
        assert {0, 1, 2, 3, end - 1} <= held[-1]
        assert list(session.context.positions[-1][0]) == sorted(held[-1])
    assert ways <= {"read", "extended", "evicted"}, "floors are few: nothing is read again"


def test_the_worst_go_first() -> None:
    worth = [0.0] * 600
    for place in range(20, 30):
        worth[place] = 1.0
    session = Session(engine(worth), budget=40)
    for end in (38, 50, 62, 74, 90):
        session.read(text(120)[:end])
    assert set(range(20, 30)) <= set(session.context.positions[-1][0].tolist())


@pytest.mark.parametrize("kind", ["attention", "head-tail"])
def test_scores_that_cannot_be_cached_are_made_anew(kind: str) -> None:
    session = Session(Engine(model_of("llama"), scorers.create(kind)), budget=60)
    session.read(PROMPT)
    assert session.read(PROMPT + SUFFIX).how == "compacted"


def test_a_floor_that_has_gone_is_read_again() -> None:
    session = Session(engine(), budget=45)
    session.read(text(90)[:44])
    assert session.read(text(90)[:60]).how == "evicted"
    gone = next(place for place in range(60) if place not in session.context.positions[-1][0].tolist())
    reading = session.read(text(90)[:62], floor=[place == gone for place in range(62)])
    assert reading.how == "compacted"
    assert gone in session.context.positions[-1][0].tolist()


def test_news_that_leave_no_room_beside_floors_are_read_with_the_rest() -> None:
    session = Session(engine(), budget=45)
    session.read(PROMPT[:40])
    floor = [place < 28 for place in range(90)]
    reading = session.read(PROMPT[:40] + text(50, seed=4), floor=floor)
    assert (reading.how, reading.tokens_read) == ("compacted", 90)


def test_whole_segments_are_chosen_anew() -> None:
    session = Session(engine(), budget=45)
    session.read(PROMPT[:40])
    reading = session.read(PROMPT, segments=[place // 6 for place in range(50)])
    assert reading.how == "compacted"


def test_scores_that_are_no_numbers_change_nothing() -> None:
    class Moody(Planted):
        spoil = False

        def rescore(
            self, layer: int, cached: torch.Tensor, positions: torch.Tensor, last: torch.Tensor
        ) -> torch.Tensor:
            return cached + (float("nan") if self.spoil else 0.0)

    scorer = Moody(range(600))
    session = Session(Engine(model_of("llama"), scorer), budget=45)
    session.read(PROMPT[:40])
    scorer.spoil = True
    with pytest.raises(BraceError, match="not finite"):
        session.read(PROMPT)
    scorer.spoil = False
    assert session.context.lengths() == [40] * LAYERS
    assert session.read(PROMPT).how == "evicted"


def test_without_being_asked_nothing_is_remembered() -> None:
    asked: list[int] = []

    class Listening(Planted):
        def cacheable_score(self, given: ScoreInput) -> torch.Tensor:
            asked.append(given.layer)
            return super().cacheable_score(given)

    one = Engine(model_of("llama"), Listening(range(600)))
    context = one.prefill(row(PROMPT)).context
    assert [context.scores(layer) for layer in range(LAYERS)] == [None] * LAYERS
    session = Session(one)
    session.read(PROMPT)
    session.read(PROMPT + SUFFIX)
    assert not asked


@pytest.mark.parametrize("path", ["eager", "static"])
def test_what_was_written_and_stays_is_scored_or_read_again(path: str) -> None:
    """Written tokens that the next prompt repeats were never scored on the static path."""
    one = engine(path=path)
    session = Session(one, budget=60)
    session.read(text(70))
    for token in (5, 6, 7):
        one.extend(session.context, row([token]))
    reading = session.read([*text(70), 5, 6, 7, *SUFFIX])
    assert reading.kept_last == 60
    assert torch.isfinite(session.context.logits).all()
