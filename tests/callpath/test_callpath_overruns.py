"""Budgets that cannot hold what may never be cut: refused before the run, or said plainly in the call."""

from __future__ import annotations

import pytest
from callpath_kit import (
    TEMPLATE,
    TOKENIZERS,
    Recorder,
    call,
    compressor,
    every_compressor,
    every_tokenizer,
    floors,
    histories,
    lines_of,
    pool_of,
    total,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from brace.callpath import CallPath, Fit, Mode, OpenCall
from brace.callpath.compress import Compressor
from brace.context import Line, PromptTemplate, Segment
from brace.errors import ConfigError

HISTORY = [
    Segment("task", "tidy the whole house before noon"),
    Segment("safety", "stay off the stairs"),
    *(Segment("observation", f"door {n} is shut", n) for n in range(30)),
]
quick = settings(deadline=None, max_examples=20)


@every_tokenizer
@pytest.mark.parametrize("over", [-3, -1, 0])
def test_a_budget_at_or_below_the_template_is_refused_with_both_numbers(tokens: str, over: int) -> None:
    tokenizer = TOKENIZERS[tokens]
    template = tokenizer.count(TEMPLATE.render([]))
    with pool_of(Recorder(tokenizer)) as pool:
        path = CallPath(pool, {"pruned": Mode(TEMPLATE, (Fit(compressor("recency")),))})
        with pytest.raises(ConfigError, match=rf"pruned.*{template + over}\b.* {template} tokens"):
            path.check_budget("pruned", template + over)


def test_a_budget_above_the_template_or_none_is_accepted() -> None:
    with pool_of(Recorder()) as pool:
        path = CallPath(pool, {"pruned": Mode(TEMPLATE, (Fit(compressor("recency")),))})
        path.check_budget("pruned", TOKENIZERS["words"].count(TEMPLATE.render([])) + 1)
        path.check_budget("pruned", None)


def test_each_mode_s_budget_is_held_against_its_own_template() -> None:
    with pool_of(Recorder()) as pool:
        short, long = PromptTemplate("{context}Go:\n"), PromptTemplate("word " * 50 + "{context}Plan:\n")
        modes = {
            name: Mode(t, (Fit(compressor("recency")),)) for name, t in (("short", short), ("long", long))
        }
        path = CallPath(pool, modes)
        path.check_budget("short", 20)
        with pytest.raises(ConfigError, match=r"modes\.long"):
            path.check_budget("long", 20)


@every_tokenizer
@every_compressor
@quick
@given(history=histories, short=st.integers(1, 30))
def test_floors_over_the_budget_are_said_and_nobody_is_asked(
    name: str, grain: str, tokens: str, history: list[Segment], short: int
) -> None:
    planner = Recorder(TOKENIZERS[tokens])
    lines = lines_of(history, planner.tokenizer)
    least = planner.tokenizer.count(TEMPLATE.render([])) + total(floors(lines))
    result = call(planner, lines, budget=least - short, how=compressor(name, grain), inline=True)
    assert (result.status, planner.seen, result.output) == ("over_budget", [], "")
    assert result.plan.is_empty
    assert "raise the budget or allow floor overruns" in result.error
    assert [phase.name for phase in result.clock.phases] == ["context_compress"]


def test_a_call_over_its_budget_still_says_how_long_its_context_was() -> None:
    lines = lines_of(HISTORY)
    result = call(Recorder(), lines, budget=30)
    assert result.status == "over_budget"
    assert result.tokens_in == result.tokens_template + total(lines)


@every_tokenizer
@every_compressor
@quick
@given(history=histories, short=st.integers(1, 30))
def test_where_overruns_are_allowed_the_floors_go_out_alone_and_the_excess_is_noted(
    name: str, grain: str, tokens: str, history: list[Segment], short: int
) -> None:
    planner = Recorder(TOKENIZERS[tokens])
    lines = lines_of(history, planner.tokenizer)
    alone = TEMPLATE.render(floors(lines))
    least = planner.tokenizer.count(TEMPLATE.render([])) + total(floors(lines))
    count = planner.tokenizer.count(alone)
    budget = min(least, count) - short
    result = call(planner, lines, budget=budget, how=compressor(name, grain), overrun=True, inline=True)
    assert [prompt.text for prompt in planner.seen] == [alone]
    assert result.status == "ok"
    assert result.tokens_after == count
    assert result.floor_overrun == count - budget
    assert result.slack == 0


@every_tokenizer
@quick
@given(history=histories, spare=st.integers(0, 30))
def test_where_overruns_are_allowed_floors_that_fit_still_obey_the_budget(
    tokens: str, history: list[Segment], spare: int
) -> None:
    planner = Recorder(TOKENIZERS[tokens])
    lines = lines_of(history, planner.tokenizer)
    least = planner.tokenizer.count(TEMPLATE.render([])) + total(floors(lines))
    assume(planner.tokenizer.count(TEMPLATE.render(floors(lines))) <= least + spare)
    result = call(planner, lines, budget=least + spare, overrun=True, inline=True)
    assert result.tokens_after <= least + spare
    assert result.floor_overrun == 0


def test_where_overruns_are_allowed_floors_that_count_more_together_go_out_too() -> None:
    # One by one they fit the budget, in one prompt they do not.
    planner = Recorder(TOKENIZERS["bpe"])
    lines = lines_of([Segment("task", "", n) for n in range(9)], planner.tokenizer)
    count = planner.tokenizer.count(TEMPLATE.render(lines))
    budget = planner.tokenizer.count(TEMPLATE.render([])) + total(lines)
    assert count > budget
    result = call(planner, lines, budget=budget, overrun=True)
    assert result.status == "ok"
    assert (result.tokens_after, result.floor_overrun) == (count, count - budget)


def test_a_compressor_that_ignores_its_room_is_an_error_not_an_overrun() -> None:
    class Deaf(Compressor):
        name = "deaf"

        def compress(self, call: OpenCall) -> list[Line]:
            return lines

    lines = lines_of(HISTORY)
    planner = Recorder()
    with pytest.raises(AssertionError, match="'deaf'"):
        call(planner, lines, budget=100, how=Deaf())
    assert planner.seen == []
