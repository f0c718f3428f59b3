"""The static path does what the eager one does, in every family, and its buffers lose nothing."""

from __future__ import annotations

import functools
import gc
from typing import Any

import pytest
import torch
from erecap_kit import FAMILIES, VOCAB, model_of, scorer_of
from hypothesis import given, settings
from hypothesis import strategies as st

from brace.erecap import Context, Engine, Keep, Session, Writing, write
from brace.erecap.backbone import Backbone
from brace.erecap.scorers import Predictor, ScoreInput, Scorer
from brace.erecap.static.context import StaticBuffers, StaticContext
from brace.erecap.static.path import ROOM
from brace.errors import BraceError, ConfigError

STATIC = [name for name, family in FAMILIES.items() if not any(family.windows)]
WINDOWED = [name for name in FAMILIES if name not in STATIC]
KEEPS = {
    "all": Keep(), "ratio": Keep(ratio=0.7), "half": Keep(ratio=0.5), "budget": Keep(budget=60),
}  # fmt: skip
CLOSE = 2e-4


@functools.cache
def own_model(family: str) -> Any:
    """Not the other tests' model: asked for attentions once, transformers leaves its hooks in the layers."""
    return model_of.__wrapped__(family)


def ids_of(tokens: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(3, VOCAB, (1, tokens), generator=torch.Generator().manual_seed(seed))


def both(family: str, scorer: str = "predictor") -> tuple[Engine, Engine]:
    model = own_model(family)
    made = scorer_of(scorer, model)
    return Engine(model, made, path="eager"), Engine(model, made, path="static")


@pytest.mark.parametrize("family", STATIC)
@pytest.mark.parametrize("kept", KEEPS)
def test_it_keeps_and_says_the_same(family: str, kept: str) -> None:
    eager, static = both(family)
    ids = ids_of(150)
    floor = torch.zeros_like(ids, dtype=torch.bool)
    floor[:, 30:40] = True
    wanted, found = (engine.prefill(ids, keep=KEEPS[kept], floor=floor) for engine in (eager, static))
    assert isinstance(found.context, StaticContext)
    assert found.schedules == wanted.schedules
    for mine, theirs in zip(found.survivors, wanted.survivors, strict=True):
        assert torch.equal(mine, theirs)
    assert torch.allclose(found.context.logits, wanted.context.logits, atol=CLOSE)
    assert found.context.lengths() == wanted.context.lengths()
    assert found.context.nbytes() == wanted.context.nbytes()
    for more in (1, 1, 7, 1, 40):
        new = ids_of(more, seed=more)
        logits = [engine.extend(one.context, new) for engine, one in ((eager, wanted), (static, found))]
        assert torch.allclose(logits[0], logits[1], atol=CLOSE)
    for mine, theirs in zip(found.context.positions, wanted.context.positions, strict=True):
        assert torch.equal(mine, theirs)
    assert int(found.context.next_position) == int(wanted.context.next_position)


@pytest.mark.parametrize("family", STATIC)
def test_it_writes_the_same(family: str) -> None:
    texts = []
    for engine in both(family):
        context = engine.prefill(ids_of(120), keep=Keep(ratio=0.6)).context
        texts.append(write(engine, context, Writing(max_new_tokens=30)).tokens)
    assert texts[0] == texts[1]
    assert len(set(texts[0][0])) > 3


@pytest.mark.parametrize(
    "scorer", ["recency", "attention", "hidden-norm", "head-tail", "random", "grad-hidden"]
)
def test_it_takes_every_scorer(scorer: str) -> None:
    eager, static = both("llama", scorer)
    ids = ids_of(130)
    wanted, found = (engine.prefill(ids, keep=Keep(ratio=0.5)) for engine in (eager, static))
    assert all(torch.equal(a, b) for a, b in zip(found.survivors, wanted.survivors, strict=True))


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("read"), st.integers(1, 9)), st.tuples(st.just("crop"), st.integers(1, 140))
        ),
        max_size=6,
    )
)
@settings(max_examples=25, deadline=None)
def test_reading_on_and_forgetting_in_any_order(steps: list[tuple[str, int]]) -> None:
    eager, static = both("llama")
    contexts: list[Context] = [
        engine.prefill(ids_of(100), keep=Keep(ratio=0.6)).context for engine in (eager, static)
    ]
    for number, (step, size) in enumerate(steps):
        if step == "crop":
            for context in contexts:
                context.crop(size)
        new = ids_of(1 if step == "crop" else size, seed=number)
        logits = [
            engine.extend(one, new, every=True) for engine, one in zip((eager, static), contexts, strict=True)
        ]
        assert torch.allclose(logits[0], logits[1], atol=CLOSE)
        assert contexts[0].lengths() == contexts[1].lengths()


@pytest.mark.parametrize("evict", [True, False])
def test_a_session_reads_the_same_and_reuses_the_same(evict: bool) -> None:
    told: list[list[Any]] = []
    for engine in both("qwen2"):
        session = Session(engine, budget=90, compact_to=60, evict=evict)
        ids = ids_of(80)[0].tolist()
        seen = []
        for turn in range(8):
            reading = session.read(ids)
            seen.append((reading.how, reading.tokens_cached, reading.tokens_read, reading.kept_last))
            written = write(engine, session.context, Writing(max_new_tokens=5)).tokens[0]
            seen.append(tuple(written))
            ids = [*ids[: 70 + 8 * turn], *ids_of(16, seed=turn)[0].tolist()]
        told.append(seen)
    assert told[0] == told[1]
    ways = {one[0] for one in told[0][::2]}
    assert ways >= {"read", "extended", "evicted" if evict else "compacted"}


def test_a_context_that_outgrows_its_allocation_moves_and_others_stay() -> None:
    eager, static = both("llama")
    other = static.prefill(ids_of(50, seed=9)).context
    before = other.logits.clone()
    pair = [engine.prefill(ids_of(40)).context for engine in (eager, static)]
    blocker = static.prefill(ids_of(50, seed=8)).context
    for seed in range(3):
        new = ids_of(150, seed=seed)
        logits = [engine.extend(one, new) for engine, one in zip((eager, static), pair, strict=True)]
        assert torch.allclose(logits[0], logits[1], atol=CLOSE)
    long = ids_of(ROOM // 4 + 1, seed=5)
    again = static.extend(other, long)
    assert torch.allclose(again, static.extend(static.prefill(ids_of(50, seed=9)).context, long), atol=CLOSE)
    assert torch.equal(before, static.prefill(ids_of(50, seed=9)).context.logits)
    assert blocker.lengths()[0] == 50


def test_two_contexts_can_be_written_from_in_turn() -> None:
    _, static = both("llama")
    alone = [write(static, static.prefill(ids_of(60, seed=s)).context, Writing(8)).tokens[0] for s in (1, 2)]
    contexts = [static.prefill(ids_of(60, seed=s)).context for s in (1, 2)]
    turns: list[list[int]] = [[], []]
    for _ in range(8):
        for own, context in zip(turns, contexts, strict=True):
            own.append(int(context.logits.argmax()))
            static.extend(context, torch.tensor([[own[-1]]]))
    assert turns == alone


def test_weights_of_a_type_a_gpu_has_no_kernels_for_take_the_eager_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = own_model("llama")
    assert model.dtype == torch.float64
    monkeypatch.setattr(Backbone, "device", torch.device("cuda"))
    with pytest.raises(ConfigError, match=r"its weights are float64; on a GPU .*use path='eager'"):
        Engine(model, path="static")
    engine = Engine(model, path="auto")
    monkeypatch.undo()
    assert not isinstance(engine.prefill(ids_of(60)).context, StaticContext)


@pytest.mark.parametrize("family", WINDOWED)
def test_models_with_windows_are_refused(family: str) -> None:
    model = own_model(family)
    with pytest.raises(ConfigError, match="window"):
        Engine(model, path="static")


def test_batches_padding_and_segments_go_the_eager_way() -> None:
    _, static = both("llama")
    ids = ids_of(60)
    for options in (
        {"ids": ids.expand(2, -1)},
        {"ids": ids, "attention_mask": torch.arange(60)[None] >= 5},
        {"ids": ids, "segments": torch.arange(60)[None] // 5},
    ):
        assert not isinstance(static.prefill(**options, keep=Keep(ratio=0.6)).context, StaticContext)  # type: ignore[arg-type]


def test_mistakes_are_answered() -> None:
    eager, static = both("llama")
    context = static.prefill(ids_of(60)).context
    with pytest.raises(ConfigError, match="another engine"):
        eager.extend(context, ids_of(1))
    with pytest.raises(ConfigError, match="without padding"):
        static.extend(context, ids_of(2), torch.tensor([[0, 1]]))
    with pytest.raises(ConfigError, match="does not fit"):
        static.extend(context, ids_of(500))
    with pytest.raises(ConfigError, match="must be auto, eager or static"):
        Engine(own_model("llama"), path="fast")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="path='eager'"):
        static.prefill(ids_of(60), keep=Keep(ratio=0.7)).worth  # noqa: B018

    class FakeBroken(Scorer):
        name = "fake-broken"

        def score(self, given: ScoreInput) -> torch.Tensor:
            return torch.full(given.positions.shape, torch.nan)

    with pytest.raises(BraceError, match="not finite"):
        Engine(own_model("llama"), FakeBroken(), path="static").prefill(ids_of(60), keep=Keep(ratio=0.7))


@given(
    st.lists(st.one_of(st.integers(0, 9), st.lists(st.integers(1, 400), min_size=3, max_size=3)), max_size=20)
)
@settings(deadline=None)
def test_allocations_never_overlap_and_growing_keeps_what_is_there(steps: list[int | list[int]]) -> None:
    class Owner:
        pass

    buffers = StaticBuffers(1, 2, torch.float32, torch.device("cpu"))
    held: list[tuple[Owner, Any, float]] = []
    for number, step in enumerate(steps):
        if isinstance(step, int):
            if held:
                held.pop(step % len(held))
                gc.collect()
            continue
        owner = Owner()
        allocation = buffers.allocate(step, owner)
        held.append((owner, allocation, float(number)))
        for index in range(3):
            for part in buffers.layer(allocation, index):
                assert len(part) == step[index]
                part.fill_(number)
    for _, allocation, value in held:
        for index in range(3):
            assert all((part == value).all() for part in buffers.layer(allocation, index))


def test_a_freed_allocation_is_used_again() -> None:
    buffers = StaticBuffers(1, 2, torch.float32, torch.device("cpu"))
    owners = [Predictor.fresh("llama", 8, (3,)) for _ in range(2)]
    first = buffers.allocate([300, 100], owners[0])
    buffers.allocate([300], owners[1])
    size = buffers.nbytes
    buffers.free(first)
    assert buffers.allocate([400], owners[0]).start == first.start
    assert buffers.nbytes == size
