"""Reading before a deadline: budgets hold, what was read is reused, and a reading cut short does no harm."""

from __future__ import annotations

import contextlib
import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from planners_local_kit import FakeLimits

from brace.erecap import Engine, Reading
from brace.erecap.models import load_model
from brace.errors import ConfigError
from brace.planners import prompt_reading
from brace.planners.prompt_reading import PromptReader, TimeUp
from brace.planners.prompt_tokens import PromptTokens
from brace.registry import scorers

LINE = 12


@pytest.fixture(scope="module")
def engine(folder: Path) -> Engine:
    return Engine(load_model(folder)[0], scorers.create("attention"))


@pytest.fixture(scope="module")
def lasting(folder: Path) -> Engine:
    """With a scorer whose scores can be cached."""
    return Engine(load_model(folder)[0], scorers.create("hidden-norm"))


def tokens(length: int, foot: int = 5, seed: int = 0) -> PromptTokens:
    """A beginning that is the same for all lengths, lines of a dozen tokens, and a foot of its own."""
    draw = torch.Generator().manual_seed(seed)
    body = torch.randint(1, 250, (3000,), generator=draw).tolist()[: length - foot]
    ids = [*body, *(250 + n for n in range(foot))]
    floor = [place < 2 * LINE or place >= len(body) for place in range(length)]
    return PromptTokens(ids, floor, [place // LINE if place < len(body) else -1 for place in range(length)])


def read(
    reader: PromptReader, prompt: PromptTokens, budget: int | None = None, looks: float = float("inf")
) -> Reading:
    return reader.read(prompt, budget, FakeLimits(looks), whole_lines=False)


def from_scratch(engine: Engine, prompt: PromptTokens, budget: int | None = None) -> torch.Tensor:
    reader = PromptReader(engine, reuse=False)
    read(reader, prompt, budget)
    return reader.context.logits


@pytest.mark.parametrize("piece", [64, 512])
def test_a_grown_prompt_is_read_on_and_gives_the_same_logits(
    engine: Engine, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_reading, "PIECE", piece)
    reader = PromptReader(engine, reuse=True)
    for length, cached in ((300, 0), (420, 295), (420, 419), (425, 415), (900, 420)):
        reading = read(reader, tokens(length))
        assert (reading.tokens_cached, reading.tokens_read) == (cached, length - cached)
        assert reading.kept_last == reading.kept_mean == length
        expected = from_scratch(engine, tokens(length))
        assert torch.allclose(reader.context.logits, expected, atol=1e-3)
        engine.extend(reader.context, torch.tensor([[7, 8, 9]]))  # a plan that was written is forgotten


def test_without_reuse_everything_is_read_each_time(engine: Engine) -> None:
    reader = PromptReader(engine, reuse=False)
    for _ in range(2):
        reading = read(reader, tokens(200))
        assert (reading.tokens_cached, reading.tokens_read) == (0, 200)


@pytest.mark.parametrize("budget", [120, 200, 299])
def test_a_budget_is_met_exactly_and_floors_survive(engine: Engine, budget: int) -> None:
    reader, prompt = PromptReader(engine, reuse=True), tokens(300)
    reading = read(reader, prompt, budget)
    assert reading.kept_last == budget
    assert budget < reading.kept_mean < 300
    assert reading.tokens_read == 300
    living = set(reader.context.positions[-1][0].tolist())
    assert {place for place, floor in enumerate(prompt.floor) if floor} <= living


def test_whole_lines_live_or_die(engine: Engine) -> None:
    reader, prompt = PromptReader(engine, reuse=True), tokens(300)
    reading = reader.read(prompt, 150, FakeLimits(), whole_lines=True)
    assert 120 <= reading.kept_last <= 150
    living = set(reader.context.positions[-1][0].tolist())
    for line in range(max(prompt.segments) + 1):
        of_line = {place for place, number in enumerate(prompt.segments) if number == line}
        assert of_line <= living or not of_line & living


def test_what_fits_its_budget_is_not_pruned_and_serves_other_budgets(engine: Engine) -> None:
    reader = PromptReader(engine, reuse=True)
    assert read(reader, tokens(300), 400).kept_last == 300
    assert read(reader, tokens(320), None).tokens_cached == 295
    assert read(reader, tokens(340), 500).tokens_cached == 315
    reading = read(reader, tokens(360), 200)
    assert (reading.tokens_cached, reading.kept_last) == (0, 200)
    reading = read(reader, tokens(380), None)
    assert (reading.tokens_cached, reading.kept_last) == (0, 380)


@pytest.mark.parametrize(
    ("first", "then", "budget"),
    [
        (None, tokens(400), None),
        (tokens(250), tokens(400), None),
        (tokens(250, foot=0), tokens(400), None),
        (tokens(400), tokens(400), None),
        (tokens(250, seed=1), tokens(400), None),
        (None, tokens(400), 150),
        (tokens(300), tokens(400), 150),
        (tokens(400), tokens(400), 150),
    ],
    ids=["new", "grown", "grown-foot", "same", "other", "pruned", "compacted", "pruned-same"],
)
def test_a_reading_cut_anywhere_leaves_a_reader_that_reads_right(
    engine: Engine,
    first: PromptTokens | None,
    then: PromptTokens,
    budget: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prompt_reading, "PIECE", 64)
    prompts = [prompt for prompt in (first, then) if prompt is not None]
    expected = [(prompt, from_scratch(engine, prompt, budget)) for prompt in prompts]
    counted, whole = FakeLimits(), PromptReader(engine, reuse=True)
    if first is not None:
        read(whole, first, budget)
    whole.read(then, budget, counted, whole_lines=False)
    assert counted.looked > 30
    for looks in range(0, counted.looked, max(1, counted.looked // 10)):
        reader = PromptReader(engine, reuse=True)
        if first is not None:
            read(reader, first, budget)
            engine.extend(reader.context, torch.tensor([[7, 8, 9]]))
        with pytest.raises(TimeUp):
            read(reader, then, budget, looks)
        # The old prompt has more in common with what was there before the cut than with what is there now.
        for prompt, logits in expected:
            reading = read(reader, prompt, budget)
            assert reading.tokens_cached + reading.tokens_read == len(prompt.ids)
            assert torch.allclose(reader.context.logits, logits, atol=1e-3)


def test_a_reader_that_is_always_cut_gets_there_in_the_end(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_reading, "PIECE", 64)
    limits = FakeLimits()
    PromptReader(engine, reuse=True).read(tokens(640), None, limits, whole_lines=False)
    reader, calls = PromptReader(engine, reuse=True), 0
    for length in range(640, 740, 10):
        calls += 1
        try:
            read(reader, tokens(length), None, looks=limits.looked // 3)
            break
        except TimeUp:
            continue
    assert calls in (4, 5, 6)


def test_reading_leaves_no_hooks_in_the_model(engine: Engine) -> None:
    reader = PromptReader(engine, reuse=True)
    read(reader, tokens(100))
    with pytest.raises(TimeUp):
        read(reader, tokens(200), looks=3)
    assert not any(part._forward_pre_hooks for part in engine.backbone.model.modules())


@pytest.mark.parametrize(("budget", "then"), [(None, 300), (150, 300), (None, 700), (350, 700)])
def test_an_earlier_episode_s_caches_are_not_kept(engine: Engine, budget: int | None, then: int) -> None:
    reader = PromptReader(engine, reuse=True)
    read(reader, tokens(600, seed=1), budget)
    old = weakref.ref(reader.context.layers[0])
    read(reader, tokens(then), budget)
    gc.collect()
    assert old() is None
    assert max(reader.context.lengths()) == then


@pytest.mark.parametrize(
    ("length", "budget", "problem"),
    [(2100, None, "positions"), (2100, 300, "positions"), (300, 39, "39 tokens cannot hold")],
)
def test_what_cannot_be_read_is_said_and_the_next_call_works(
    engine: Engine, length: int, budget: int | None, problem: str
) -> None:
    reader = PromptReader(engine, reuse=True)
    read(reader, tokens(200))
    limits = FakeLimits()
    with pytest.raises(ConfigError, match=problem):
        reader.read(tokens(length), budget, limits, whole_lines=False)
    assert limits.looked == 0, "it is said before anything is read"
    read(reader, tokens(220))
    assert torch.allclose(reader.context.logits, from_scratch(engine, tokens(220)), atol=1e-3)


def read_in_short_calls(
    engine: Engine, prompt: PromptTokens, budget: int | None, each: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[PromptReader, Reading]:
    """By a fake clock that ticks once for every token in every layer, with time for `each` tokens a call."""
    run_layer = engine.backbone.run_layer

    class FakeClock(FakeLimits):
        ticks = 0

        def expired(self) -> bool:
            return self.ticks > each * engine.backbone.n_layers

        def run_layer(self, index: int, hidden: torch.Tensor, *rest: Any) -> torch.Tensor:
            self.ticks += hidden.shape[1]
            return run_layer(index, hidden, *rest)

    reader = PromptReader(engine, reuse=True)
    for _ in range(12):
        clock = FakeClock()
        monkeypatch.setattr(engine.backbone, "run_layer", clock.run_layer)
        with contextlib.suppress(TimeUp):
            return reader, reader.read(prompt, budget, clock, whole_lines=False)
    raise AssertionError("it never got there")


def test_a_deadline_too_near_for_one_piece_is_met_with_smaller_ones(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = from_scratch(engine, tokens(100))
    reader, reading = read_in_short_calls(engine, tokens(100), None, 40, monkeypatch)
    assert reading.tokens_cached > 0
    assert torch.allclose(reader.context.logits, expected, atol=1e-3)


def test_so_is_one_too_near_to_prune_all_at_once(lasting: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    _, reading = read_in_short_calls(lasting, tokens(700), 160, 120, monkeypatch)
    assert reading.tokens_cached > 0
    assert reading.kept_last == 160


def test_what_was_read_before_survives_a_cut(engine: Engine) -> None:
    reader = PromptReader(engine, reuse=True)
    read(reader, tokens(300))
    with pytest.raises(TimeUp):
        read(reader, tokens(320), looks=20)
    assert read(reader, tokens(330)).tokens_cached == 295


def test_compacted_to_less_than_its_budget_the_next_calls_read_on(engine: Engine) -> None:
    reader = PromptReader(engine, reuse=True, compact_to=0.6)
    readings = [read(reader, tokens(length), 200) for length in range(300, 480, 20)]
    assert readings[0].kept_last == 120
    assert {reading.how for reading in readings[1:4]} == {"extended"}
    assert all(reading.tokens_read <= 30 for reading in readings[1:4])
    assert "compacted" in [reading.how for reading in readings[4:]]
    assert all(reading.kept_last <= 200 for reading in readings)


def test_a_compaction_never_aims_below_what_may_not_be_cut(engine: Engine) -> None:
    reader = PromptReader(engine, reuse=True, compact_to=0.01)
    prompt = tokens(300)
    assert sum(prompt.floor) <= read(reader, prompt, 100).kept_last <= 100


def test_over_its_budget_only_news_are_read_and_floors_survive(lasting: Engine) -> None:
    reader = PromptReader(lasting, reuse=True)
    ways = []
    for length in (100, 150, 190, 260, 300):
        reading = read(reader, tokens(length), 160)
        ways.append(reading.how)
        assert reading.kept_last <= 160
        held = set(reader.context.positions[-1][0].tolist())
        assert {place for place, fixed in enumerate(tokens(length).floor) if fixed} <= held
    assert ways == ["read", "extended", "evicted", "evicted", "evicted"]
    assert (reading.tokens_cached, reading.tokens_read) == (255, 45)


def test_news_that_leave_no_room_are_taken_in_bit_by_bit(lasting: Engine) -> None:
    reader = PromptReader(lasting, reuse=True)
    read(reader, tokens(150), 160)
    reading = read(reader, tokens(600), 160)
    assert (reading.how, reading.tokens_cached, reading.tokens_read) == ("evicted", 145, 455)
    assert reading.kept_last == 160


def test_a_larger_budget_reads_anew_what_was_pruned_to_much_less(lasting: Engine) -> None:
    reader = PromptReader(lasting, reuse=True)
    read(reader, tokens(400), 120)
    assert read(reader, tokens(410), 125).how == "evicted"
    assert read(reader, tokens(420), 300).tokens_cached == 0
    assert read(reader, tokens(430), 150).tokens_cached == 415, "less can be kept of what is there"
    assert read(reader, tokens(440), None).kept_last == 440


def test_what_was_pruned_for_a_reading_that_was_cut_is_not_taken_for_the_whole(lasting: Engine) -> None:
    reader = PromptReader(lasting, reuse=True)
    read(reader, tokens(150), 160)
    with pytest.raises(TimeUp):
        read(reader, tokens(300), 160, looks=5)
    assert min(reader.context.lengths()) < 145, "room was made before it was cut"
    assert read(reader, tokens(300), None).kept_last == 300
