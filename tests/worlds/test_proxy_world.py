"""The proxy's rules, one by one, and the livelock that sets its two versions apart."""

from __future__ import annotations

from itertools import pairwise

import pytest

from brace.context import ContextBuffer, WordTokenizer, plan_template
from brace.controller import Decision, GateReason
from brace.plan import parse
from brace.registry import worlds
from brace.worlds.proxy.world import SKILLS, STUCK_LIMIT, ProxyWorld

CLEAR = parse("clear(); advance(full, 20, 16, 0, 1.0)", SKILLS)
GO_ON = parse("advance(pruned, 20, 9, 0, 0.5)", SKILLS)


def blocked(world: ProxyWorld, seed: int = 1) -> ProxyWorld:
    """Walk until a conflict has begun."""
    world.reset(seed)
    while "block" not in world.observe()[-1].text:
        world.step(hold=False)
    return world


@pytest.fixture(params=["proxy-v1", "proxy-v2"])
def world(request: pytest.FixtureRequest) -> ProxyWorld:
    made = worlds.create(request.param)
    assert made.id == request.param
    return made  # type: ignore[no-any-return]


def test_the_same_seed_gives_the_same_episode(world: ProxyWorld) -> None:
    def trace(seed: int) -> list[str]:
        world.reset(seed)
        texts = []
        for _ in range(80):
            texts.append(world.observe()[-1].text)
            world.step(hold=False)
        return texts

    assert trace(3) == trace(3)
    assert trace(3) != trace(4)


def test_the_context_grows_as_in_the_paper(world: ProxyWorld) -> None:
    """900 + 10 t tokens with the template, about 200 of them never cut."""
    buffer = ContextBuffer(WordTokenizer())
    template = buffer.tokenizer.count(plan_template(SKILLS.describe()).render([]))
    sizes = []
    while not world.finished():
        buffer.extend(world.observe())
        sizes.append(template + buffer.tokens)
        world.step(hold=False)
    assert sizes[0] == pytest.approx(900, abs=20)
    assert {later - earlier for earlier, later in pairwise(sizes)} == {10}
    floors = template + sum(line.tokens for line in buffer.lines() if line.floor)
    assert floors == pytest.approx(200, abs=20)


def test_a_conflict_blocks_until_it_is_cleared_by_a_full_plan(world: ProxyWorld) -> None:
    for plan, free in ((GO_ON, False), (CLEAR, True)):
        blocked(world)
        assert world.apply(plan) is None
        world.step(hold=False)
        assert (world.events().progress != 0) == free


def test_progress_is_in_proportion_to_the_plans_quality(world: ProxyWorld) -> None:
    def moved(quality: float) -> float:
        world.reset(5)
        world.apply(parse(f"advance(pruned, 20, 9, 0, {quality})", SKILLS))
        world.step(hold=False)
        return world.events().progress or 0.0

    assert moved(1.0) == pytest.approx(2 * moved(0.5))


def test_an_ignored_trigger_makes_the_plan_stale(world: ProxyWorld) -> None:
    def moved(*reasons: GateReason) -> float:
        world.reset(5)
        for reason in reasons:
            world.decided(Decision(0, ("failure",), gate=reason))
        world.step(hold=False)
        return world.events().progress or 0.0

    fresh = moved()
    assert moved("cooldown") == pytest.approx(0.98 * fresh)
    assert moved("commit") == pytest.approx(0.995 * fresh)
    assert moved("in_flight") == pytest.approx(fresh)


def test_a_plan_that_makes_no_sense_is_refused(world: ProxyWorld) -> None:
    assert world.apply(parse("clear()", SKILLS)) is not None
    assert world.apply(parse("advance(a, 1, 1, 1, 1); clear()", SKILLS)) is not None


def test_stopping_stands_still(world: ProxyWorld) -> None:
    world.reset(5)
    world.stop()
    world.step(hold=False)
    assert world.events().progress == 0
    assert world.rest().is_empty


def test_published_version_nothing_ticks_while_thinking() -> None:
    """The livelock: held steps neither end the conflict nor the stuck count, whatever plans arrive."""
    world = blocked(ProxyWorld(corrected=False), seed=2)
    while not world.events().deadlock:
        world.step(hold=False)
    for _ in range(100):
        world.apply(GO_ON)
        world.step(hold=True)
        assert world.events().deadlock


def test_corrected_version_time_passes_and_a_plan_starts_a_new_count() -> None:
    world = blocked(ProxyWorld(corrected=True), seed=2)
    while not world.events().deadlock:
        world.step(hold=False)
    world.apply(GO_ON)
    world.step(hold=True)
    assert not world.events().deadlock
    for _ in range(60):
        world.step(hold=True)
    world.step(hold=False)
    assert world.events().progress != 0, "no conflict lasts longer than 60 steps"


def test_deadlock_is_forty_stuck_steps(world: ProxyWorld) -> None:
    world.reset(5)
    world.stop()
    for number in range(1, STUCK_LIMIT + 1):
        assert not world.events().deadlock
        world.step(hold=False)
        assert world.figures()["stall"] == number
    assert world.events().deadlock
    assert world.figures()["deadlocks"] == 1
