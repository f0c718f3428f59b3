"""The budget is a promise: what the planner really saw has at most B tokens, template and all."""

from __future__ import annotations

import pytest
from callpath_kit import (
    GRANULAR,
    TEMPLATE,
    TOKENIZERS,
    Recorder,
    budget_for,
    call,
    compressor,
    every_compressor,
    every_tokenizer,
    floors,
    histories,
    lines_of,
    plain_histories,
    shares,
    total,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from brace.callpath import OpenCall
from brace.context import Line, Segment
from brace.worlds.proxy.compressor import KEEP

quick = settings(deadline=None, max_examples=25)


class Made:
    """A call with everything a check needs beside it."""

    def __init__(
        self, name: str, grain: str, tokens: str, history: list[Segment], share: float, seed: int = 0
    ):
        self.tokenizer = TOKENIZERS[tokens]
        self.lines: list[Line] = lines_of(history, self.tokenizer)
        self.template = self.tokenizer.count(TEMPLATE.render([]))
        self.budget = budget_for(self.lines, self.template, share)
        planner = Recorder(self.tokenizer)
        self.result: OpenCall = call(
            planner, self.lines, budget=self.budget, how=compressor(name, grain), seed=seed, inline=True
        )
        self.seen = planner.seen

        self.raw = self.template + total(self.lines)
        self.least = self.template + total(floors(self.lines))


@every_tokenizer
@every_compressor
@quick
@given(history=histories, share=shares, seed=st.integers(0, 9))
def test_what_the_planner_saw_is_counted_right_and_within_the_budget(
    name: str, grain: str, tokens: str, history: list[Segment], share: float, seed: int
) -> None:
    made = Made(name, grain, tokens, history, share, seed)
    result = made.result
    if made.result.status == "over_budget":  # floors that count more together than one by one
        assert tokens == "bpe"
        assert made.tokenizer.count(TEMPLATE.render(floors(made.lines))) > made.budget
        return
    [prompt] = made.seen
    assert result.tokens_after == prompt.tokens == made.tokenizer.count(prompt.text) <= made.budget
    assert (result.tokens_template, result.tokens_in) == (made.template, made.raw)
    assert result.floor_overrun == 0


@every_tokenizer
@every_compressor
@quick
@given(history=histories, share=shares)
def test_the_template_and_every_floor_are_in_the_prompt_verbatim_and_in_order(
    name: str, grain: str, tokens: str, history: list[Segment], share: float
) -> None:
    made = Made(name, grain, tokens, history, share)
    for prompt in made.seen:
        assert prompt.text.startswith(TEMPLATE.head)
        assert prompt.text.endswith(TEMPLATE.foot)
        place = len(TEMPLATE.head)
        for line in floors(made.lines):
            place = prompt.text.index(line.text, place) + len(line.text)


@every_tokenizer
@every_compressor
@quick
@given(history=histories, share=shares)
def test_slack_is_what_a_bound_call_leaves_of_its_budget(
    name: str, grain: str, tokens: str, history: list[Segment], share: float
) -> None:
    made = Made(name, grain, tokens, history, share)
    if made.seen:
        bound = made.raw > made.budget
        assert made.result.slack == (made.budget - made.result.tokens_after if bound else 0)


@pytest.mark.parametrize("name", GRANULAR)
@settings(deadline=None, max_examples=80)
@given(history=plain_histories, share=shares, seed=st.integers(0, 9))
def test_by_token_the_built_in_tokenizer_uses_the_budget_to_the_last_token(
    name: str, history: list[Segment], share: float, seed: int
) -> None:
    # `structured` too: its summaries stand beside the originals, so there is always enough to fill with.
    made = Made(name, "token", "words", history, share, seed)
    assert made.result.tokens_after == min(made.budget, made.raw)


@pytest.mark.parametrize("name", GRANULAR)
@settings(deadline=None, max_examples=60)
@given(history=histories, share=shares, seed=st.integers(0, 9))
def test_by_token_little_is_left_over_whatever_the_texts(
    name: str, history: list[Segment], share: float, seed: int
) -> None:
    # A run of spaces is a token of its own, and a cut line is stripped: the last few may find no place.
    made = Made(name, "token", "words", history, share, seed)
    assert 0 <= min(made.budget, made.raw) - made.result.tokens_after <= 8


@settings(deadline=None, max_examples=80)
@given(history=plain_histories, share=shares)
def test_proxy_erecap_keeps_its_share_or_what_the_budget_allows(history: list[Segment], share: float) -> None:
    # It cuts to 70 % of what may be cut even where B has more room: that is the keep ratio it simulates.
    made = Made("proxy-erecap", "", "words", history, share)
    kept = made.least + int(KEEP * (made.raw - made.least))
    assert made.result.tokens_after == (made.raw if made.raw <= made.budget else min(made.budget, kept))


@every_tokenizer
@every_compressor
@quick
@given(history=histories, spare=st.integers(0, 5))
def test_nothing_is_cut_when_it_fits(
    name: str, grain: str, tokens: str, history: list[Segment], spare: int
) -> None:
    planner = Recorder(TOKENIZERS[tokens])
    lines = lines_of(history, planner.tokenizer)
    whole = TEMPLATE.render(lines)
    # In one piece it may count a little more than in lines.
    raw = max(planner.tokenizer.count(whole), planner.tokenizer.count(TEMPLATE.render([])) + total(lines))
    result = call(planner, lines, budget=raw + spare, how=compressor(name, grain), inline=True)
    assert [prompt.text for prompt in planner.seen] == [whole]
    assert result.slack == 0


@every_tokenizer
@quick
@given(history=histories, short=st.integers(1, 40))
def test_none_sends_all_or_refuses_without_asking(tokens: str, history: list[Segment], short: int) -> None:
    planner = Recorder(TOKENIZERS[tokens])
    lines = lines_of(history, planner.tokenizer)
    raw = planner.tokenizer.count(TEMPLATE.render([])) + total(lines)
    result = call(planner, lines, budget=raw - short, how=compressor("none"))
    assert (result.status, planner.seen) == ("over_budget", [])
    assert "raise the budget" in result.error


@every_tokenizer
@pytest.mark.parametrize("name", ["none", *GRANULAR, "proxy-erecap"])
@quick
@given(history=histories)
def test_without_a_budget_everything_is_sent(name: str, tokens: str, history: list[Segment]) -> None:
    planner = Recorder(TOKENIZERS[tokens])
    lines = lines_of(history, planner.tokenizer)
    result = call(planner, lines, budget=None, how=compressor(name), inline=True)
    assert [prompt.text for prompt in planner.seen] == [TEMPLATE.render(lines)]
    assert result.tokens_after == planner.tokenizer.count(TEMPLATE.render(lines))
    assert (result.slack, result.floor_overrun) == (0, 0)


@every_tokenizer
@every_compressor
def test_the_prompt_reaches_the_planner_s_thread_as_it_was_counted(
    name: str, grain: str, tokens: str
) -> None:
    history = [Segment("observation", f"door {n} is shut", n) for n in range(60)]
    planner = Recorder(TOKENIZERS[tokens])
    result = call(planner, lines_of(history, planner.tokenizer), budget=200, how=compressor(name, grain))
    [prompt] = planner.seen
    assert result.status == "ok"
    assert 180 < result.tokens_after == planner.tokenizer.count(prompt.text) <= 200


def test_floors_that_fit_are_never_refused_for_what_may_be_cut() -> None:
    # Whatever the budget, from what the floors count as one text: nothing that joins dearly may cost them.
    tokenizer = TOKENIZERS["bpe"]
    history = [Segment("task", "", n) for n in range(4)] + [Segment("action", "", n) for n in range(9)]
    lines = lines_of(history, tokenizer)
    least = tokenizer.count(TEMPLATE.render(floors(lines)))
    for budget in range(least, tokenizer.count(TEMPLATE.render(lines)) + 1):
        for grain in ("token", "segment"):
            result = call(
                Recorder(tokenizer), lines, budget=budget, how=compressor("recency", grain), inline=True
            )
            assert (result.status, result.tokens_after <= budget) == ("ok", True), (budget, grain)


def test_the_same_seed_makes_the_same_prompt_and_another_one_another() -> None:
    lines = lines_of(Segment("observation", f"door {n} shut", n) for n in range(40))
    texts = []
    for seed in (1, 1, 2):
        planner = Recorder()
        call(planner, lines, budget=120, how=compressor("random", "token"), seed=seed)
        texts += [prompt.text for prompt in planner.seen]
    assert texts[0] == texts[1] != texts[2]


class Rough:
    """Counts as people do who have no tokenizer at hand: a token is four characters, rounded down."""

    name = "len / 4"

    def count(self, text: str) -> int:
        return len(text) // 4

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [(4 * n, 4 * n + 4) for n in range(self.count(text))]


@pytest.mark.parametrize("name", GRANULAR)
@settings(deadline=None, max_examples=100)
@given(history=histories, share=shares)
def test_lines_that_count_more_together_than_one_by_one_never_overrun_nor_crash(
    name: str, history: list[Segment], share: float
) -> None:
    planner = Recorder(Rough())
    lines = lines_of(history, planner.tokenizer)
    budget = budget_for(lines, planner.tokenizer.count(TEMPLATE.render([])), share)
    result = call(planner, lines, budget=budget, how=compressor(name, "segment"), inline=True)
    assert [prompt.text for prompt in planner.seen] == [] or result.tokens_after <= budget


def test_a_context_that_keeps_counting_more_than_its_lines_is_cut_further_not_given_up() -> None:
    # An empty text's space and newline are one token at the end of a text, two within a prompt. Each time
    # the room shrinks, a long line gives way to an older, shorter one with one more empty line before it.
    tokenizer = TOKENIZERS["bpe"]
    room = 200 - tokenizer.count(TEMPLATE.render([]))
    empty, one = (total(lines_of([Segment("action", text)], tokenizer)) for text in ("", "#"))
    newest_first: list[Segment] = []
    for number in range(1, 9):
        fill = room - (number - 1) - number * empty - one + 1
        newest_first += [Segment("action", ""), Segment("action", "#" * fill)]
    result = call(Recorder(tokenizer), lines_of(reversed(newest_first), tokenizer), budget=200)
    assert result.status == "ok"
    assert 100 < result.tokens_after <= 200
