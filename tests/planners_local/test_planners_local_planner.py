"""The local planner as the loop sees it: text, usage, budgets, deadlines, errors."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from planners_local_kit import (
    NAMES,
    POSITIONS,
    TEAM,
    WORLD,
    FakeLimits,
    ask,
    byte_level_tokenizer,
    history,
    prompt_of,
    save_tiny,
)

from brace import Agent
from brace.callpath import CallPath, Fit, Mode
from brace.callpath.compress import InModel
from brace.context import ContextBuffer, plan_template
from brace.errors import ConfigError
from brace.plan import parse, parse_partial
from brace.planners import Deadline, Planner, PlannerPool, Prompt, Usage
from brace.planners.local import TransformersPlanner


def make(folder: Path, bound: bool = True, **options: Any) -> TransformersPlanner:
    planner = TransformersPlanner(str(folder), **options)
    if bound:
        planner.bind(WORLD)
    return planner


def test_it_is_a_planner_that_prunes(folder: Path) -> None:
    planner = make(folder)
    assert isinstance(planner, Planner)
    assert planner.prunes
    assert str(folder.parent) not in planner.name + planner.tokenizer.name


@pytest.mark.parametrize("seed", range(5))
def test_it_writes_plans_of_the_world_it_is_bound_to(tmp_path: Path, seed: int) -> None:
    planner = make(save_tiny(tmp_path, seed=seed), max_new_tokens=400)
    text, _ = ask(planner, prompt_of(history(12, seed), planner))
    plan = parse(text, TEAM)
    names = {
        value for _, calls in plan.steps for call in calls if call.skill == "goto" for value in call.args
    }
    assert names <= {*NAMES["object"], *NAMES["room"]}


def test_in_a_user_s_own_loop_it_is_bound_to_the_agent_s_skills_and_names(folder: Path) -> None:
    planner = make(folder, bound=False, max_new_tokens=400)
    with Agent(planner, skills=TEAM, names=NAMES, while_thinking="hold") as agent:
        step = agent.step(["room 3: red ball"])
    assert step.arrived
    goals = {call.args[0] for _, calls in step.plan.steps for call in calls if call.skill == "goto"}
    assert goals <= {*NAMES["object"], *NAMES["room"]}


def test_rebinding_changes_the_language(folder: Path) -> None:
    planner = make(folder)
    world = SimpleNamespace(skills=TEAM, names={"object": ("green key",), "room": ("hall",)})
    planner.bind(world)
    text, _ = ask(planner, prompt_of(history(5), planner))
    assert "red ball" not in text


def test_unconstrained_it_writes_what_the_model_likes(folder: Path) -> None:
    planner = make(folder, constrain=False, max_new_tokens=30)
    text, usage = ask(planner, prompt_of(history(5), planner))
    assert text
    assert parse_partial(text, TEAM)[1] is not None
    assert usage is not None
    assert usage.note == ""


def test_a_planner_bound_to_no_world_says_that_it_is_not_constrained(folder: Path) -> None:
    planner = make(folder, bound=False, max_new_tokens=5)
    _, usage = ask(planner, prompt_of(history(5), planner))
    assert usage is not None
    assert "bound to no world" in usage.note


def test_reuse_gives_the_text_of_a_fresh_reading(folder: Path) -> None:
    reusing, fresh = make(folder), make(folder, reuse=False)
    for calls, steps in enumerate((5, 9, 9, 14, 30, 3)):
        prompt = prompt_of(history(steps), reusing)
        text, usage = ask(reusing, prompt)
        expected, whole = ask(fresh, prompt)
        assert text == expected
        assert usage is not None
        assert whole is not None
        assert (whole.tokens_cached, whole.tokens_read) == (0, prompt.tokens)
        assert usage.tokens_cached + (usage.tokens_read or 0) == prompt.tokens == usage.kept_last
        assert (usage.tokens_cached > 0) == (0 < calls < 5)


def test_the_text_comes_in_pieces_of_whole_characters_after_the_usage(tmp_path: Path) -> None:
    """A model that writes nothing but the bytes of one long character, over and over."""
    tokenizer = byte_level_tokenizer()
    planner = make(save_tiny(tmp_path, tokenizer), constrain=False, max_new_tokens=8)
    snow = tokenizer("☂").input_ids
    assert len(snow) > 1

    class FakeMask:
        def __call__(self, written: Any, logits: Any) -> Any:
            forced = logits.new_full(logits.shape, -1.0)
            forced[0, snow[written.shape[1] % len(snow)]] = 1.0
            return forced

        def forced_after(self, token: int) -> list[int]:
            return []

    planner._constraint = SimpleNamespace(begin=FakeMask)  # type: ignore[assignment]
    usage, *pieces = planner.stream(prompt_of(history(3), planner), FakeLimits())
    assert isinstance(usage, Usage)
    assert pieces == ["☂"] * (8 // len(snow))


@pytest.mark.parametrize("granularity", ["token", "segment"])
@pytest.mark.parametrize("chat", [False, True])
def test_the_call_path_s_budget_binds_what_the_last_layer_holds(
    chat_folder: Path, granularity: str, chat: bool
) -> None:
    planner = make(chat_folder, granularity=granularity, chat=chat)
    mode = Mode(plan_template(TEAM.describe()), (Fit(InModel()),))
    path = CallPath(PlannerPool(planner), {"pruned": mode}, TEAM)
    buffer = ContextBuffer(planner.tokenizer)
    for steps, budget in ((30, 420), (40, 420), (50, 500), (60, None), (60, 500)):
        buffer = ContextBuffer(planner.tokenizer)
        buffer.extend(history(steps))
        result = path.run(path.open(buffer.lines(), "pruned", budget=budget))
        assert result.status in ("ok", "partial"), result.error
        sent = planner.tokenizer.count(plan_template(TEAM.describe()).render(buffer.lines()))
        assert result.tokens_read + result.tokens_cached == sent + planner.prompt_overhead
        if budget is None:
            assert result.tokens_after == result.kept_mean == sent + planner.prompt_overhead
        else:
            after = result.tokens_after
            assert after == budget if granularity == "token" else 0 < after <= budget
            assert result.tokens_after < result.kept_mean < sent + planner.prompt_overhead


@pytest.mark.parametrize("above", [-5, 0, 1, 12])
def test_a_budget_without_room_for_more_than_floors_is_overrun_where_that_is_allowed(
    chat_folder: Path, above: int
) -> None:
    planner = make(chat_folder)
    mode = Mode(plan_template(TEAM.describe()), (Fit(InModel(), allow_floor_overrun=True),))
    path = CallPath(PlannerPool(planner), {"pruned": mode}, TEAM)
    buffer = ContextBuffer(planner.tokenizer)
    buffer.extend(history(40))
    floors = [line for line in buffer.lines() if line.floor]
    fixed = planner.tokenizer.count(mode.template.render(floors)) + planner.prompt_overhead
    budget = fixed + above
    result = path.run(path.open(buffer.lines(), "pruned", budget=budget))
    assert result.status in ("ok", "partial"), result.error
    assert 0 < result.floor_overrun < fixed / 7 - above
    assert result.tokens_after == budget + result.floor_overrun


def test_the_overhead_of_a_chat_template_is_what_is_read_beyond_the_text(chat_folder: Path) -> None:
    planner = make(chat_folder)
    prompt = prompt_of(history(5), planner)
    _, usage = ask(planner, prompt)
    assert usage is not None
    assert usage.tokens_read == prompt.tokens + planner.prompt_overhead
    assert planner.prompt_overhead > 0
    assert make(chat_folder, chat=False).prompt_overhead == 0


def test_cut_between_tokens_the_text_is_the_beginning_of_the_whole(folder: Path) -> None:
    planner = make(folder)
    prompt = prompt_of(history(8), planner)
    counted = FakeLimits()
    whole, _ = ask(planner, prompt, counted)
    lengths = []
    for looks in range(0, counted.looked, 5):
        text, _ = ask(make(folder), prompt, FakeLimits(looks))
        assert whole.startswith(text)
        lengths.append(len(text))
    assert lengths == sorted(lengths)
    assert lengths[0] == 0 < lengths[-1] < len(whole)
    assert ask(planner, prompt)[0] == whole


def test_a_real_deadline_stops_a_long_reading_early(folder: Path) -> None:
    planner = make(folder, reuse=False)
    prompt = prompt_of(history(75), planner)
    assert prompt.tokens > 1500
    started = time.perf_counter()
    for _ in planner.stream(prompt, FakeLimits()):
        break
    needed = time.perf_counter() - started
    with Deadline(needed / 4 * 1e3) as deadline:
        assert list(planner.stream(prompt, deadline)) == []
        late_ms = deadline.elapsed_ms() - deadline.limit_ms
    assert 0 <= late_ms < needed / 2 * 1e3


def test_a_second_caller_waits_its_turn_but_no_longer_than_its_deadline(folder: Path) -> None:
    planner = make(folder)
    prompt = prompt_of(history(8), planner)
    expected, _ = ask(planner, prompt)
    first = planner.stream(prompt, FakeLimits())
    next(first)
    with Deadline(60) as deadline:
        assert list(planner.stream(prompt, deadline)) == []
        assert deadline.elapsed_ms() < 2000
    answers: list[str] = []
    waiting = threading.Thread(target=lambda: answers.append(ask(planner, prompt)[0]))
    waiting.start()
    assert "".join(piece for piece in first if isinstance(piece, str)) == expected
    waiting.join(30)
    assert answers == [expected]


def test_an_answer_that_is_abandoned_frees_the_planner(folder: Path) -> None:
    planner = make(folder)
    prompt = prompt_of(history(8), planner)
    expected, _ = ask(planner, prompt)
    answer = planner.stream(prompt, FakeLimits())
    next(answer)
    next(answer)
    answer.close()  # type: ignore[attr-defined]
    assert ask(planner, prompt)[0] == expected


@pytest.mark.parametrize(
    ("steps", "budget", "problem"), [(200, None, f"{POSITIONS} positions"), (40, 60, "budget of 60 tokens")]
)
def test_what_cannot_be_read_fails_the_call_and_not_the_next(
    folder: Path, steps: int, budget: int | None, problem: str
) -> None:
    planner = make(folder)
    pool = PlannerPool(planner)
    good = prompt_of(history(4), planner)
    expected = pool.ask(good, Deadline(None))
    bad = pool.ask(prompt_of(history(steps), planner, budget), Deadline(None))
    assert (bad.status, bad.text) == ("failed", "")
    assert problem in bad.error
    assert pool.ask(good, Deadline(None)).text == expected.text != ""
    pool.close()


def test_writing_ends_where_the_positions_end(folder: Path) -> None:
    planner = make(folder, constrain=False)
    text = "ball " * 5000
    spans = planner.tokenizer.spans(text)
    prompt = Prompt(text[: spans[POSITIONS - 3][1]], POSITIONS - 2)
    assert planner.tokenizer.count(prompt.text) == POSITIONS - 2
    _, *pieces = planner.stream(prompt, FakeLimits())
    assert len(pieces) <= 3


def test_an_empty_prompt_fails_clearly(folder: Path) -> None:
    with pytest.raises(ConfigError, match="empty context"):
        ask(make(folder), Prompt("", 0))


def test_a_ratio_prunes_calls_that_have_no_budget(folder: Path) -> None:
    kept = {}
    for ratio in (None, 0.9, 0.6):
        planner = make(folder, ratio=ratio, max_new_tokens=1)
        prompt = prompt_of(history(40), planner)
        assert prompt.budget is None
        _, usage = ask(planner, prompt)
        assert usage is not None
        kept[ratio] = usage.kept_last
        assert usage.tokens_read == planner.tokenizer.count(prompt.text) + planner.prompt_overhead
    assert kept[0.6] < kept[0.9] < kept[None]


@pytest.mark.parametrize(
    ("option", "value"), [("ratio", 0.0), ("ratio", 1.5), ("compact_to", 0), ("compact_to", 2)]
)
def test_a_share_that_is_none_is_refused(folder: Path, option: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{option} = {value}: must be above 0 and at most 1"):
        make(folder, **{option: value})
