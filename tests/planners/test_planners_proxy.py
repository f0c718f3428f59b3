"""The proxy's symbolic planner: a model of a reader that loses with what was cut."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brace.callpath import Deadline
from brace.plan import Plan, parse
from brace.planners import Planner, ProxyPlanner
from brace.planners.proxy import ProxyPrompt
from brace.registry import compressors, planners
from brace.worlds.proxy import SKILLS, ProxyV2, background

NAMES = [*compressors.names(), "proxy-erecap (simulated)", "one of your own"]
LINES = "[action 6] gap 9000 since 100 ok\n[action 7] gap 8400 since 250 ok\nPlan:\n"


def written(
    text: str = LINES,
    tokens: int = 300,
    tokens_in: int = 600,
    mode: str = "pruned",
    compressor: str = "recency",
) -> str:
    prompt = ProxyPrompt(text, tokens, tokens_in=tokens_in, mode=mode, compressor=compressor)
    return "".join(ProxyPlanner().stream(prompt, Deadline(None)))


def quality(tokens: int, tokens_in: int, mode: str = "pruned", compressor: str = "recency") -> float:
    plan = parse(written(LINES, tokens, tokens_in, mode, compressor), SKILLS)
    return float(plan.of(0)[-1].args[-1])


texts = st.text(max_size=60) | st.builds(
    "[action {}] gap {} since {} ok\n".format,
    st.integers(0, 999),
    st.integers(-999, 10_000),
    st.integers(-9, 999),
)
sizes = st.tuples(st.integers(0, 5000), st.integers(0, 5000)).map(sorted)
modes = st.sampled_from(["full", "pruned"])


@settings(deadline=None, max_examples=150)
@given(text=texts, sizes=sizes, mode=modes, compressor=st.sampled_from(NAMES))
def test_whatever_it_reads_it_writes_the_same_plan_twice_and_the_world_accepts_it(
    text: str, sizes: list[int], mode: str, compressor: str
) -> None:
    first, again = (written(text, *sizes, mode, compressor) for _ in range(2))
    assert first == again
    assert ProxyV2().apply(parse(first, SKILLS)) is None


@settings(deadline=None, max_examples=100)
@given(kept=st.lists(st.integers(0, 2000), min_size=2, max_size=6), mode=modes, name=st.sampled_from(NAMES))
def test_quality_falls_with_the_share_that_was_cut(kept: list[int], mode: str, name: str) -> None:
    kept = sorted(kept)
    qualities = [quality(tokens, 2000, mode, name) for tokens in kept]
    assert qualities == sorted(qualities)
    assert all(0 < value <= 1 for value in qualities)
    if kept[-1] - kept[0] > 20:
        assert qualities[0] < qualities[-1]


def test_the_whole_context_in_full_mode_gives_the_best_plan() -> None:
    assert quality(2000, 2000, "full", "none") == 1.0
    assert quality(2000, 2000, "pruned", "none") == 0.9
    assert quality(0, 2000, "full", "none") == 0.7


def test_how_the_context_was_cut_tells_in_the_quality() -> None:
    by_method = {
        name: quality(500, 1000, compressor=name) for name in ("none", "recency", "structured", "random")
    }
    assert by_method["none"] > by_method["recency"] > by_method["structured"] > by_method["random"]


def test_full_mode_clears_the_conflict_and_pruned_does_not() -> None:
    skills = {mode: [c.skill for c in parse(written(mode=mode), SKILLS).of(0)] for mode in ("full", "pruned")}
    assert skills == {"full": ["clear", "advance"], "pruned": ["advance"]}


def test_it_reads_the_newest_action_line_only() -> None:
    newest = LINES.splitlines(keepends=True)[1]
    assert written(LINES) == written(newest)
    assert written(LINES) != written(LINES.splitlines(keepends=True)[0])


def leg(text: str) -> Plan:
    """The plan without its quality, which two equal plans may differ in."""
    plan = parse(written(text), SKILLS)
    return Plan(tuple((agent, tuple(calls)) for agent, calls in plan.steps))


def test_a_plan_that_made_no_progress_is_replaced_by_another_one() -> None:
    stuck = [leg(f"[action {step}] gap 8400 since 10 ok\n") for step in (7, 8)]
    moving = [leg(f"[action {step}] gap 8400 since 250 ok\n") for step in (7, 8)]
    assert stuck[0] != stuck[1]
    assert moving[0] == moving[1]


def test_without_an_action_line_it_still_plans() -> None:
    assert not parse(written("nothing to see here\n"), SKILLS).is_empty
    assert math.isfinite(quality(0, 0))


def test_it_plans_from_what_the_proxy_world_really_says() -> None:
    world = ProxyV2()
    text = "".join(segment.render() for segment in world.observe())
    plan = parse(written(text, 900, 900, "full", "none"), SKILLS)
    assert plan.of(0)[-1].args[1] == str(10_000 // 500)
    assert len(text.splitlines()) == len(background()) + 1


OPTIONS = {"openai": {"base_url": "http://127.0.0.1:9/v1", "model": "fake"}}
LOCAL = {"transformers", "embedded"}
"""These load weights; tests/planners_local has them."""


@pytest.mark.parametrize("name", sorted(set(planners.names()) - LOCAL))
def test_every_registered_planner_keeps_the_contract(name: str) -> None:
    planner = planners.create(name, OPTIONS.get(name))
    assert isinstance(planner, Planner)
    assert planner.name.split(" ")[0] == name
    assert planner.tokenizer.count("two words") > 0
