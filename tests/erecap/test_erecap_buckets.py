"""Buckets: texts are padded to a few shapes, read the same, and pruned only where that pays."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from erecap_kit import VOCAB, model_of, scorer_of
from hypothesis import given, settings
from hypothesis import strategies as st

from brace.erecap import Engine, Keep
from brace.erecap.scorers import ScoreInput, Scorer
from brace.erecap.static import buckets
from brace.erecap.static.buckets import LARGEST, BreakEven, bucket_of, quantum, shape_of
from brace.erecap.static.context import StaticContext
from brace.erecap.static.prefill import counts_of
from brace.errors import BraceError, ConfigError

LAYERS = 28


@pytest.fixture(scope="module")
def model() -> Any:
    """Not the other tests' model: asked for attentions once, transformers leaves its hooks in the layers."""
    return model_of.__wrapped__("llama")


def ids_of(tokens: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(3, VOCAB, (1, tokens), generator=torch.Generator().manual_seed(seed))


@given(st.integers(1, LARGEST))
def test_a_bucket_holds_its_texts_and_little_more(tokens: int) -> None:
    bucket = bucket_of(tokens)
    assert bucket is not None
    assert tokens <= bucket < tokens + 64
    assert bucket_of(bucket) == bucket


def test_longer_texts_have_no_bucket() -> None:
    assert bucket_of(LARGEST + 1) is None
    assert shape_of(Keep(ratio=0.7).schedule(LARGEST + 1, LAYERS), Keep(ratio=0.7), 0) is None


@given(st.integers(1, 10**6))
def test_long_lengths_are_rounded_up_a_little(tokens: int) -> None:
    assert tokens <= quantum(tokens) <= tokens * (1 + 1 / 32)
    assert quantum(quantum(tokens)) == quantum(tokens)


@given(st.integers(1, LARGEST), st.floats(0.3, 0.99), st.integers(0, 300))
def test_a_shape_has_room_for_every_text_of_its_bucket(tokens: int, ratio: float, floors: int) -> None:
    keep = Keep(ratio=ratio)
    schedule = keep.schedule(tokens, LAYERS, floors)
    shape = shape_of(schedule, keep, floors)
    assert shape is not None
    assert shape.tokens == bucket_of(tokens)
    assert all(room >= count for room, count in zip(shape.lengths(), schedule.lengths(), strict=True))


@given(st.integers(100, LARGEST), st.integers(30, 2000), st.integers(0, 300))
def test_a_budget_s_shape_has_room_or_there_is_none(tokens: int, budget: int, floors: int) -> None:
    keep = Keep(budget=budget)
    try:
        schedule = keep.schedule(tokens, LAYERS, floors)
    except ConfigError:
        return
    shape = shape_of(schedule, keep, floors)
    if shape is not None:
        assert all(room >= count for room, count in zip(shape.lengths(), schedule.lengths(), strict=True))


def test_texts_of_one_bucket_share_a_shape() -> None:
    for keep in (Keep(), Keep(ratio=0.7), Keep(budget=200)):
        shapes = {
            shape_of(keep.schedule(tokens, LAYERS, floors), keep, floors)
            for tokens in range(449, 513)
            for floors in (1, 30, 64)
        }
        assert len(shapes) == 1


@given(st.integers(1, 3000), st.floats(0.3, 0.99))
def test_counts_follow_the_schedule(tokens: int, ratio: float) -> None:
    schedule = Keep(ratio=ratio).schedule(tokens, LAYERS)
    counts = counts_of(schedule)
    assert [row[0] for row in counts] == [tokens, *schedule.kept]
    assert [row[2] for row in counts] == [*schedule.kept, schedule.last]


@given(st.lists(st.integers(65, 128), min_size=1, max_size=4), st.sampled_from([None, 0.6]))
@settings(max_examples=15, deadline=None)
def test_all_lengths_of_a_bucket_are_read_as_by_the_eager_path(
    model: Any, lengths: list[int], ratio: float | None
) -> None:
    scorer = scorer_of("predictor", model)
    eager, static = (Engine(model, scorer, path=path) for path in ("eager", "static"))  # type: ignore[arg-type]
    for seed, tokens in enumerate(lengths):
        ids = ids_of(tokens, seed)
        wanted, found = (engine.prefill(ids, keep=Keep(ratio=ratio)) for engine in (eager, static))
        assert found.path_note.startswith("bucket of 128")
        assert all(torch.equal(a, b) for a, b in zip(found.survivors, wanted.survivors, strict=True))
        assert torch.allclose(found.context.logits, wanted.context.logits, atol=2e-4)
        new = ids_of(5, seed + 50)
        logits = [engine.extend(one.context, new) for engine, one in ((eager, wanted), (static, found))]
        assert torch.allclose(*logits, atol=2e-4)


def test_a_text_above_the_largest_bucket_is_read_without_one_and_says_so(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "LARGEST", 64)
    scorer = scorer_of("predictor", model)
    eager, static = (Engine(model, scorer, path=path) for path in ("eager", "static"))  # type: ignore[arg-type]
    wanted, found = (engine.prefill(ids_of(150), keep=Keep(ratio=0.6)) for engine in (eager, static))
    assert found.path_note == "static, no bucket"
    assert all(torch.equal(a, b) for a, b in zip(found.survivors, wanted.survivors, strict=True))
    assert torch.allclose(found.context.logits, wanted.context.logits, atol=2e-4)


def test_the_break_even_is_believed_after_a_few_measurements_and_their_best_counts() -> None:
    pays = BreakEven()
    assert pays.why_not("a") == ""
    for whole, pruned in ((9.0, 90.0), (5.0, 6.0), (5.5, 6.5)):
        assert not pays.known("a")
        assert pays.why_not("a") == ""
        pays.learn("a", whole, pruned)
    assert pays.known("a")
    assert "reading all takes 5.0 ms, pruning 6.0 ms" in pays.why_not("a")
    pays.learn("b", 5.0, 4.9, tries=3)
    assert pays.known("b")
    assert pays.why_not("b") == ""


def test_below_the_break_even_a_ratio_prunes_nothing_and_a_budget_still_binds(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BreakEven, "why_not", lambda _, kind: "not pruned: a fake" if kind else "")
    engine = Engine(model, scorer_of("predictor", model), path="static")
    whole = engine.prefill(ids_of(150), keep=Keep(ratio=0.6))
    assert whole.schedules[0].last == 150
    assert whole.survivors[-1].all()
    assert whole.path_note.endswith("not pruned: a fake")
    assert engine.prefill(ids_of(150), keep=Keep(budget=60)).schedules[0].last == 60


def test_on_a_cpu_auto_is_eager(model: Any) -> None:
    assert not isinstance(Engine(model).prefill(ids_of(40)).context, StaticContext)


@pytest.mark.parametrize("path", ["eager", "static"])
def test_out_of_memory_is_said_in_words_and_nothing_is_taken(model: Any, path: Any) -> None:
    class FakeFull(Scorer):
        name = "fake-full"

        def score(self, given: ScoreInput) -> torch.Tensor:
            raise torch.OutOfMemoryError

    engine = Engine(model, FakeFull(), path=path)
    for _ in range(3):
        with pytest.raises(BraceError, match=r"out of memory while reading 80 tokens .*shorten the context"):
            engine.prefill(ids_of(80), keep=Keep(ratio=0.5))
    if engine._static is not None:
        assert engine._static.buffers.allocate([10], engine).start == 0
