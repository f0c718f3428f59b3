"""A planner that prunes in its layers gets everything and the budget; the record says what it worked on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brace.callpath import CallPath, Fit, Mode, OpenCall
from brace.callpath.compress import InModel
from brace.context import ContextBuffer, Segment, WordTokenizer, plan_template
from brace.errors import ConfigError
from brace.planners import Limits, Planner, PlannerPool, Prompt, Usage


class FakePruner(Planner):
    """Says it kept as many tokens as it was told to."""

    name, prunes = "fake-pruner", True

    def __init__(self, excess: int = 0) -> None:
        self.tokenizer = WordTokenizer()
        self.prompts: list[Prompt] = []
        self._excess = excess

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[str | Usage]:
        self.prompts.append(prompt)
        kept = (prompt.budget or prompt.tokens) + self._excess
        yield Usage(prompt.tokens, 12, kept, kept + 0.5, note="as told")
        yield "wait()"


class FakeReader(FakePruner):
    prunes = False


def call(
    planner: FakePruner, budget: int | None, task: str = "find the ball", overrun: bool = False
) -> tuple[CallPath, OpenCall]:
    modes = {"full": Mode(plan_template(), (Fit(InModel(), allow_floor_overrun=overrun),))}
    path = CallPath(PlannerPool(planner), modes)
    buffer = ContextBuffer(planner.tokenizer)
    buffer.extend([Segment("task", task), *(Segment("message", f"room {n} is empty", n) for n in range(30))])
    return path, path.open(buffer.lines(), "full", budget=budget)


def test_the_whole_context_goes_to_the_planner_with_the_budget() -> None:
    planner = FakePruner()
    path, request = call(planner, 64)
    result = path.run(request)
    (prompt,) = planner.prompts
    assert prompt.budget == 64
    assert "room 0 is empty" in prompt.text
    assert prompt.tokens > 64
    assert (result.tokens_after, result.kept_mean) == (64, 64.5)
    assert (result.tokens_cached, result.tokens_read) == (12, prompt.tokens)
    assert result.note == "as told"


def test_the_lines_are_where_the_prompt_says() -> None:
    planner = FakePruner()
    path, request = call(planner, 64)
    path.run(request)
    (prompt,) = planner.prompts
    assert [prompt.text[span.start : span.end] for span in prompt.lines] == [
        line.text for line in request.lines
    ]
    assert [span.floor for span in prompt.lines] == [line.floor for line in request.lines]
    assert prompt.lines[0].floor
    assert not prompt.lines[1].floor


def test_without_a_budget_nothing_is_pruned() -> None:
    planner = FakePruner()
    path, request = call(planner, None)
    assert path.run(request).tokens_after == planner.prompts[0].tokens


def test_a_planner_that_keeps_more_than_the_budget_is_a_defect() -> None:
    path, request = call(FakePruner(excess=1), 64)
    with pytest.raises(AssertionError, match="65 tokens in the last layer"):
        path.run(request)


def test_a_planner_that_cannot_prune_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="does not prune"):
        call(FakeReader(), 64)


def test_what_may_never_be_cut_is_an_error_or_a_logged_overrun() -> None:
    planner = FakePruner()
    path, request = call(planner, 64, task="find the red ball " * 20)
    result = path.run(request)
    assert result.status == "over_budget"
    assert "do not fit" in result.error
    assert planner.prompts == []
    path, request = call(planner, 64, task="find the red ball " * 20, overrun=True)
    result = path.run(request)
    assert result.status == "ok"
    (prompt,) = planner.prompts
    assert prompt.budget is not None
    assert 80 < prompt.budget < prompt.tokens
    assert result.tokens_after == prompt.budget
    assert result.floor_overrun == prompt.budget - 64


def test_where_overruns_are_allowed_but_not_needed_the_budget_binds() -> None:
    planner = FakePruner()
    path, request = call(planner, 64, overrun=True)
    result = path.run(request)
    assert (result.tokens_after, result.floor_overrun) == (64, 0)
    path, request = call(FakePruner(excess=1), 64, overrun=True)
    with pytest.raises(AssertionError, match="65 tokens in the last layer"):
        path.run(request)
