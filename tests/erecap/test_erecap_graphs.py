"""Replaying captured graphs, without a GPU: a fake graph does its work again when it is replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from erecap_kit import VOCAB, model_of, scorer_of

from brace.erecap import Engine, Keep, Session
from brace.erecap.backbone import Backbone
from brace.erecap.static import extend, path, prefill
from brace.erecap.static.prefill import Outputs


class FakeGraph:
    """As on a GPU, what it gives lies where it lay when it was captured."""

    def __init__(self, work: Callable[[], Any], made: Any) -> None:
        self.work, self.made = work, made
        self.replayed = 0

    def pool(self) -> str:
        return "pool"

    def replay(self) -> None:
        self.replayed += 1
        for old, new in zip(tensors_of(self.made), tensors_of(self.work()), strict=True):
            old.copy_(new)


class FakeEvent:
    """Time stands still."""

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None: ...

    def synchronize(self) -> None: ...

    def elapsed_time(self, other: FakeEvent) -> float:
        return 0.0


def tensors_of(made: Any) -> list[torch.Tensor]:
    if isinstance(made, Outputs):
        return [made.logits, *made.places, made.finite, *made.scores]
    return [] if made is None else [made]


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[FakeGraph]:
    """All that were captured."""
    made: list[FakeGraph] = []

    def capture(work: Callable[[], Any], pool: Any = None) -> tuple[FakeGraph, Any]:
        # A capture computes nothing: a suffix's pieces would run on what the last of them left.
        made.append(FakeGraph(work, None if "_between" in repr(work) else work()))
        return made[-1], made[-1].made

    for module in (prefill, extend):
        monkeypatch.setattr(module, "capture", capture)
        monkeypatch.setattr(module, "warm_up", lambda work: work())
    for module in (prefill, path):
        monkeypatch.setattr(module, "Event", FakeEvent)
    monkeypatch.setattr(Backbone, "on_gpu", True)
    return made


@pytest.fixture(scope="module")
def model() -> Any:
    """Of a type that a GPU has kernels for, and nobody else's: see `test_erecap_static`."""
    return model_of.__wrapped__("llama").float()


def ids_of(tokens: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(3, VOCAB, (1, tokens), generator=torch.Generator().manual_seed(seed))


TURNS = ((5, True), (7, True), (5, True), (1, True), (1, False), (70, False), (1, False))
"""Tokens to read on, and whether the scorer is asked."""


@pytest.mark.parametrize("keep", [Keep(), Keep(budget=60)], ids=["all", "budget"])
def test_replayed_readings_are_those_of_the_eager_path(
    model: Any, graphs: list[FakeGraph], keep: Keep
) -> None:
    scorer = scorer_of("predictor", model)
    eager, static = Engine(model, scorer, path="eager"), Engine(model, scorer, path="static")
    for seed, tokens in enumerate((100, 128, 70, 90)):
        ids = ids_of(tokens, seed)
        floor = torch.arange(tokens)[None] == 20 + seed
        wanted, found = (
            engine.prefill(ids, keep=keep, floor=floor, remember=True) for engine in (eager, static)
        )
        assert all(torch.equal(a, b) for a, b in zip(found.survivors, wanted.survivors, strict=True))
        for more, remember in TURNS:
            new = ids_of(more, seed + more)
            logits = [
                engine.extend(one.context, new, every=True, remember=remember)
                for engine, one in ((eager, wanted), (static, found))
            ]
            assert torch.allclose(*logits, atol=2e-3)
            mine, theirs = (one.context.complete_scores() for one in (found, wanted))
            assert list(mine) == list(theirs)
            assert all(torch.allclose(mine[layer], theirs[layer], atol=2e-3) for layer in mine)
    assert found.path_note == "bucket of 128 tokens"
    # Readings of a text, single tokens, and pieces between two attentions.
    for kind in (Outputs, torch.Tensor, type(None)):
        assert any(graph.replayed for graph in graphs if isinstance(graph.made, kind))


def test_a_ratio_is_timed_and_captures_are_said(model: Any, graphs: list[FakeGraph]) -> None:
    engine = Engine(model, scorer_of("predictor", model), path="static")
    notes = [engine.prefill(ids_of(100), keep=Keep(ratio=0.6)).path_note for _ in range(2)]
    assert notes[0].startswith("bucket of 128 tokens, captured in ")
    # With a fake clock pruning takes as long as reading everything.
    assert "not pruned: below the break-even" in notes[1]


def test_a_session_replays_what_it_captured(model: Any, graphs: list[FakeGraph]) -> None:
    scorer = scorer_of("predictor", model)
    told = []
    for way in ("eager", "static"):
        session = Session(Engine(model, scorer, path=way), budget=90)  # type: ignore[arg-type]
        ids = ids_of(300)[0].tolist()
        readings = [session.read(ids[:end]) for end in range(60, 300, 20)]
        told.append([(one.how, one.tokens_read, one.kept_last) for one in readings])
        positions = session.context.positions
        told[-1] += [held.tolist() for held in positions]
    assert told[0] == told[1]
    assert any("suffixes of 64 tokens captured in " in one.path_note for one in readings)
    assert readings[-1].path_note == ""
