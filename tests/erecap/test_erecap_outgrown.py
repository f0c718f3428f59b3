"""A session whose prompt outgrows the model's positions goes on, on what still lives."""

from __future__ import annotations

import random

import pytest
import torch

from brace.erecap import Engine, Session
from brace.errors import ConfigError
from tiny_model import tiny

BUDGET = 200


@pytest.fixture
def short_sighted(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine that may use 600 positions only."""
    engine = Engine(tiny()[0])
    monkeypatch.setattr(engine.backbone, "max_positions", 600)
    return engine


def words(number: int) -> list[int]:
    draw = random.Random(7)
    return [draw.randint(1, 250) for _ in range(number)]


@pytest.mark.parametrize("evict", [True, False])
def test_it_is_compacted_to_what_lives_and_goes_on(short_sighted: Engine, evict: bool) -> None:
    session = Session(short_sighted, BUDGET, evict=evict)
    prompt = words(2000)
    ways = []
    for end in range(150, 2000, 50):
        reading = session.read(prompt[:end])
        ways.append(reading.how)
        assert reading.kept_last <= BUDGET
        assert reading.tokens == end
        if reading.how in ("extended", "evicted"):
            assert (reading.tokens_cached, reading.tokens_read) == (end - 50, 50)
        elif end > 600:
            assert reading.tokens_read <= BUDGET + 50, "only what lives and what is new is read again"
        assert int(session.context.next_position) <= 600
        assert torch.isfinite(session.context.logits).all()
    assert ways[0] == "read"
    assert set(ways[1:]) == {"extended", "compacted"} | ({"evicted"} if evict else set())
    assert ways.count("compacted") < 6 if evict else ways.count("compacted") > 20


def test_what_lives_is_read_as_a_prompt_of_its_own(short_sighted: Engine) -> None:
    """After such a compaction the model sees exactly the living tokens, in order, counted afresh."""
    session, prompt = Session(short_sighted, BUDGET, compact_to=100), words(900)
    for end in (580, 640):
        reading = session.read(prompt[:end])
    assert reading.how == "compacted"
    seen = [prompt[place] for place in session._origin]
    fresh = Session(short_sighted, BUDGET, compact_to=100)
    fresh.read(seen)
    torch.testing.assert_close(session.context.logits, fresh.context.logits)
    assert session._origin == sorted(session._origin)
    assert session._origin[-60:] == list(range(580, 640)), "what is new is there"
    assert session.read(prompt[:650]).how == "extended"
    fresh.read(seen + prompt[640:650])
    torch.testing.assert_close(session.context.logits, fresh.context.logits)


def test_the_lower_it_compacts_to_the_rarer_it_has_to(short_sighted: Engine) -> None:
    prompt = words(2000)
    compactions = {}
    for target in (BUDGET, 120):
        session = Session(short_sighted, BUDGET, evict=False, compact_to=target)
        ways = [session.read(prompt[:end]).how for end in range(190, 590, 20)]
        compactions[target] = ways.count("compacted")
    assert compactions[BUDGET] == 19
    assert compactions[120] <= 6


def test_a_target_above_the_budget_is_refused(short_sighted: Engine) -> None:
    with pytest.raises(ConfigError, match="compact_to = 300"):
        Session(short_sighted, BUDGET, compact_to=300)


def test_without_a_budget_it_is_refused_and_nothing_is_lost(short_sighted: Engine) -> None:
    session, prompt = Session(short_sighted), words(700)
    session.read(prompt[:550])
    with pytest.raises(ConfigError, match="does not fit the model's 600 positions"):
        session.read(prompt)
    assert session.read(prompt[:560]).how == "extended"
