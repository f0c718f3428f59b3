"""Fake planners: their waiting is real, their options are checked, and a seed repeats them."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Iterator

import pytest

from brace.callpath import Deadline
from brace.context import WordTokenizer
from brace.errors import BraceError, ConfigError, UnknownNameError
from brace.planners import FunctionPlanner, Planner, Prompt, fakes
from brace.registry import planners
from brace.worlds.proxy.planner import ProxyPlanner

PLAN = "goto(hall); pickup(cup)"
PROMPT = Prompt("[action 1] gap 9000 since 0 ok\n", 100)


def pieces(planner: Planner, prompt: Prompt = PROMPT, ms: float | None = None) -> list[str]:
    with Deadline(ms) as deadline:
        return list(planner.stream(prompt, deadline))


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The times a fake asks to sleep, ms; it need not."""
    asked: list[float] = []

    def note(seconds: float, limits: object) -> bool:
        asked.append(seconds * 1e3)
        return True

    monkeypatch.setattr(fakes, "_sleep", note)
    return iter([asked]).__next__()


WORKING = ["fake-fixed", "fake-heavy-tail"]


@pytest.mark.parametrize("name", WORKING)
def test_a_fake_writes_its_text_whole(name: str) -> None:
    assert "".join(pieces(planners.create(name, {"text": PLAN}))) == PLAN


@pytest.mark.parametrize("name", WORKING)
def test_without_a_text_it_writes_what_the_inner_planner_writes(name: str) -> None:
    expected = "".join(ProxyPlanner().stream(PROMPT, Deadline(None)))
    assert "".join(pieces(planners.create(name))) == expected


def test_fixed_takes_its_time_before_the_first_piece_and_in_proportion_to_the_prompt(
    slept: list[float],
) -> None:
    planner = planners.create(
        "fake-fixed", {"prefill_ms": 30, "ms_per_token": 0.5, "decode_ms": 0, "text": PLAN}
    )
    for tokens, expected in ((0, 30), (100, 80), (1000, 530)):
        slept.clear()
        pieces(planner, Prompt("", tokens))
        assert slept[0] == pytest.approx(expected)


@pytest.mark.parametrize("text", ["a", "goto(hall)", PLAN, "x" * 24, "y" * 400])
def test_fixed_spreads_its_decoding_over_the_text_whatever_its_length(text: str, slept: list[float]) -> None:
    planner = planners.create("fake-fixed", {"prefill_ms": 0, "decode_ms": 160, "text": text})
    assert "".join(pieces(planner)) == text
    assert sum(slept[1:]) == pytest.approx(160)


def test_fixed_really_waits() -> None:
    started = time.perf_counter()
    pieces(planners.create("fake-fixed", {"prefill_ms": 60, "decode_ms": 0, "text": PLAN}))
    assert time.perf_counter() - started >= 0.06


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fake-fixed", {"prefill_ms": 3_600_000}),
        ("fake-fixed", {"prefill_ms": 0, "decode_ms": 28_800_000}),
        ("fake-heavy-tail", {"median_ms": 1e9, "sigma": 0}),
    ],
)
def test_a_fake_that_listens_stops_soon_after_its_deadline(name: str, options: dict[str, float]) -> None:
    started = time.perf_counter()
    got = pieces(planners.create(name, {**options, "text": PLAN}), ms=40)
    assert 0.04 <= time.perf_counter() - started < 2
    assert len("".join(got)) < len(PLAN)


def heavy_times(slept: list[float], size: int = 400, **options: float) -> list[float]:
    planner = planners.create("fake-heavy-tail", {"text": PLAN, **options})
    slept.clear()
    for _ in range(size):
        pieces(planner)
    return list(slept)


def test_the_same_seed_gives_the_same_heavy_tail_and_another_one_another(slept: list[float]) -> None:
    first, again, other = (heavy_times(slept, 20, seed=seed) for seed in (3, 3, 4))
    assert first == again != other


def test_the_seed_does_not_depend_on_anyone_else_s_draws(slept: list[float]) -> None:
    first = heavy_times(slept, 20, seed=3)
    random.seed(99)
    assert heavy_times(slept, 20, seed=3) == first


def test_the_heavy_tail_has_its_median_and_its_spread(slept: list[float]) -> None:
    times = heavy_times(slept, median_ms=20, sigma=0.8)
    logs = [math.log(ms / 20) for ms in times]
    assert statistics.median(times) == pytest.approx(20, rel=0.2)
    assert statistics.stdev(logs) == pytest.approx(0.8, rel=0.15)
    assert heavy_times(slept, 3, median_ms=20, sigma=0) == pytest.approx([20, 20, 20])


def test_the_heavy_tail_s_median_grows_with_the_prompt(slept: list[float]) -> None:
    planner = planners.create(
        "fake-heavy-tail", {"median_ms": 20, "ms_per_token": 0.5, "sigma": 0, "text": PLAN}
    )
    for tokens in (0, 100):
        pieces(planner, Prompt("", tokens))
    assert slept == pytest.approx([20, 70])


def test_failing_raises_on_every_so_many_th_call() -> None:
    planner = planners.create("fake-failing", {"every": 3, "text": PLAN})
    outcomes = []
    for _ in range(7):
        try:
            outcomes.append("".join(pieces(planner)))
        except ConnectionError as error:
            outcomes.append(str(error))
    down = "the fake server is down"
    assert outcomes == [PLAN, PLAN, down, PLAN, PLAN, down, PLAN]


def test_hanging_does_not_listen() -> None:
    started = time.perf_counter()
    assert pieces(planners.create("fake-hanging", {"seconds": 0.1}), ms=1) == ["never()"]
    assert time.perf_counter() - started >= 0.1


def test_garbage_answers_at_once_with_what_it_is_told() -> None:
    assert pieces(planners.create("fake-garbage", {"text": "hello"})) == ["hello"]
    assert "".join(pieces(planners.create("fake-garbage", {"text": ""}))).strip() == ""


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fake-fixed", {"prefill_ms": -1}),
        ("fake-fixed", {"ms_per_token": -0.1}),
        ("fake-fixed", {"decode_ms": -1}),
        ("fake-heavy-tail", {"median_ms": 0}),
        ("fake-heavy-tail", {"sigma": -0.1}),
        ("fake-heavy-tail", {"ms_per_token": -0.1}),
        ("fake-failing", {"every": 0}),
        ("fake-failing", {"every": -2}),
        ("fake-hanging", {"seconds": -1}),
    ],
)
def test_impossible_options_are_refused_and_the_planner_named(name: str, options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=rf"planner '{name}': .* or more"):
        planners.create(name, options)


@pytest.mark.parametrize("name", [name for name in planners.names() if name.startswith("fake-")])
def test_an_unknown_option_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"'{name}' has no option 'speed'.*known:"):
        planners.create(name, {"speed": 1})


@pytest.mark.parametrize("name", [*WORKING, "fake-failing"])
def test_an_unknown_inner_planner_is_refused_with_the_nearest_name(name: str) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'proxy-symbolic'"):
        planners.create(name, {"inner": "proxy-symbolik"})


def test_a_function_s_planner_has_its_name_and_a_tokenizer() -> None:
    def house(prompt: str) -> str:
        return PLAN

    planner = FunctionPlanner(house)
    assert isinstance(planner, Planner)
    assert planner.name == "house"
    assert planner.tokenizer.count("two words") == WordTokenizer().count("two words")
    assert FunctionPlanner(house, name="mine").name == "mine"
    assert pieces(planner) == [PLAN]


def test_a_function_gets_the_prompt_s_text_and_its_pieces_come_one_by_one() -> None:
    seen = []

    def words(prompt: str) -> Iterator[str]:
        for word in prompt.split():
            seen.append(word)
            yield word

    stream = FunctionPlanner(words).stream(PROMPT, Deadline(None))
    assert (next(stream), seen) == ("[action", ["[action"])
    assert "".join(stream) == PROMPT.text.replace(" ", "").strip().removeprefix("[action")


@pytest.mark.parametrize("wrong", [None, 7, 1.5])
def test_a_function_that_returns_no_text_is_an_error_that_names_it(wrong: object) -> None:
    with pytest.raises(BraceError, match=rf"'mine' returned {type(wrong).__name__}; expected text"):
        pieces(FunctionPlanner(lambda prompt: wrong, name="mine"))  # type: ignore[arg-type, return-value]
