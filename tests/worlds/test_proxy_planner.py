"""The proxy's symbolic planner: a model of a reader that loses with what was cut."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from brace.callpath import Deadline
from brace.plan import Plan, parse
from brace.planners import Prompt
from brace.worlds.proxy.planner import FULL, ProxyPlanner
from brace.worlds.proxy.world import SKILLS, ProxyV2, background

CUTS = ["recency", "structured", "random", None]
LINES = "[action 6] gap 9000 since 100 ok\n[action 7] gap 8400 since 250 ok\nPlan:\n"


def written(
    text: str = LINES,
    tokens: int = 300,
    tokens_in: int = 600,
    mode: str = "pruned",
    cut_by: str | None = "recency",
) -> str:
    """What it writes when shown `tokens` of the `tokens_in` that could have been told."""
    planner = ProxyPlanner(cut_by)  # type: ignore[arg-type]
    world = ProxyV2()
    planner.bind(world)
    around = planner.tokenizer.count(FULL.with_skills(SKILLS.describe()).render([]))
    world.told_tokens = tokens_in - around
    asked = FULL.head + text if mode == "full" else text
    return "".join(planner.stream(Prompt(asked, tokens), Deadline(None)))


def quality(tokens: int, tokens_in: int, mode: str = "pruned", cut_by: str | None = "recency") -> float:
    plan = parse(written(LINES, tokens, tokens_in, mode, cut_by), SKILLS)
    return float(plan.of(0)[-1].args[-1])


texts = st.text(max_size=60) | st.builds(
    "[action {}] gap {} since {} ok\n".format,
    st.integers(0, 999),
    st.integers(-999, 10_000),
    st.integers(-9, 999),
)
sizes = st.tuples(st.integers(1, 5000), st.integers(1, 5000)).map(sorted)
modes = st.sampled_from(["full", "pruned"])


@settings(deadline=None, max_examples=150)
@given(text=texts, sizes=sizes, mode=modes, cut_by=st.sampled_from(CUTS))
def test_whatever_it_reads_it_writes_the_same_plan_twice_and_the_world_accepts_it(
    text: str, sizes: list[int], mode: str, cut_by: str | None
) -> None:
    first, again = (written(text, *sizes, mode, cut_by) for _ in range(2))
    assert first == again
    assert ProxyV2().apply(parse(first, SKILLS)) is None


@settings(deadline=None, max_examples=100)
@given(kept=st.lists(st.integers(0, 2000), min_size=2, max_size=6), mode=modes, cut_by=st.sampled_from(CUTS))
def test_quality_falls_with_the_share_that_was_cut(kept: list[int], mode: str, cut_by: str | None) -> None:
    kept = sorted(kept)
    qualities = [quality(tokens, 2000, mode, cut_by) for tokens in kept]
    assert qualities == sorted(qualities)
    assert all(0 < value <= 1 for value in qualities)
    if kept[-1] - kept[0] > 20:
        assert qualities[0] < qualities[-1]


def test_the_whole_context_in_full_mode_gives_the_best_plan() -> None:
    assert quality(2000, 2000, "full", None) == 1.0
    assert quality(2000, 2000, "pruned", None) == 0.9
    assert quality(0, 2000, "full", None) == 0.7


def test_how_the_context_was_cut_tells_in_the_quality() -> None:
    by_method = {cut_by: quality(500, 1000, cut_by=cut_by) for cut_by in CUTS}
    assert by_method[None] > by_method["recency"] > by_method["structured"] > by_method["random"]


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
    assert math.isfinite(quality(0, 1))


def test_it_plans_from_what_the_proxy_world_really_says() -> None:
    world = ProxyV2()
    text = "".join(segment.render() for segment in world.observe())
    plan = parse(written(text, 900, 900, "full", None), SKILLS)
    assert plan.of(0)[-1].args[1] == str(10_000 // 500)
    assert len(text.splitlines()) == len(background()) + 1


def test_in_another_world_nothing_counts_as_cut() -> None:
    planner = ProxyPlanner()
    answer = "".join(planner.stream(Prompt(LINES, 10), Deadline(None)))
    assert parse(answer, SKILLS).of(0)[-1].args[-1] == "0.9000"
