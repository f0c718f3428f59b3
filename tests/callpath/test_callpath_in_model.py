"""A planner that prunes in its layers gets everything and the budget; the record says what it worked on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brace.callpath import CallPath, CallRequest, Deadline, Mode, PlannerPool
from brace.callpath.compress import InModel
from brace.context import ContextBuffer, Segment, WordTokenizer, plan_template
from brace.errors import ConfigError
from brace.planners import Limits, Prompt, Usage


class FakePruner:
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


def call(planner: FakePruner, budget: int | None) -> tuple[CallPath, CallRequest]:
    path = CallPath(PlannerPool(planner), {"full": Mode(InModel(), plan_template())})
    buffer = ContextBuffer(planner.tokenizer)
    buffer.extend(
        [Segment("task", "find the ball"), *(Segment("message", f"room {n} is empty", n) for n in range(30))]
    )
    return path, CallRequest(buffer.lines(), "full", budget, Deadline(None))


def test_the_whole_context_goes_to_the_planner_with_the_budget() -> None:
    planner = FakePruner()
    path, request = call(planner, 64)
    result = path.run(request)
    (prompt,) = planner.prompts
    assert prompt.budget == 64
    assert "room 0 is empty" in prompt.text
    assert prompt.tokens > 64
    tokens = result.tokens
    assert (tokens.after, tokens.kept_mean, tokens.cached, tokens.read) == (64, 64.5, 12, prompt.tokens)
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
    assert path.run(request).tokens.after == planner.prompts[0].tokens


def test_a_planner_that_keeps_more_than_the_budget_is_a_defect() -> None:
    path, request = call(FakePruner(excess=1), 64)
    with pytest.raises(AssertionError, match="65 tokens in the last layer"):
        path.run(request)


def test_a_planner_that_cannot_prune_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="does not prune"):
        call(FakeReader(), 64)
