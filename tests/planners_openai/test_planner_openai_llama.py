"""Against a real server: llama.cpp with SmolLM2 on loopback. It writes poor plans, but it is no fake."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator
from typing import Any

import pytest
from fake_server import KEY, ask, patient, planner_at, play, pool_at, prompt_of
from llama_server import llama_server, missing

from brace.errors import ConfigError
from brace.plan import Arg, Skill, SkillSet, parse_partial
from brace.planners import Answer, PlannerPool, Prompt
from brace.planners.endpoint.answers import outside
from brace.planners.endpoint.counting import EstimateTokenizer

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "it can be started")

NAMES = {
    "object": tuple(
        f"{colour} {thing}" for colour in ("red", "green", "blue") for thing in ("ball", "key", "box")
    ),
    "room": ("hall", "red room", "room 2"),
    "other": ("drone_1", "intruder"),
}
HOUSE = (
    Skill("pickup", (Arg("object", "name"), Arg("room", "name"))),
    Skill("search", (Arg("object", "name"),)),
    Skill("say", (Arg("word", "name"),)),
    Skill("wait"),
)
AIR = (
    Skill("layer", (Arg("n", "choice", ("1", "2", "3")),)),
    Skill("yield", (Arg("other", "name"),)),
    Skill("hold", (Arg("seconds", "number"),)),
)


CALLS = 10


class FakeHouse:
    """All that a planner looks at in a world."""

    def __init__(self, skills: tuple[Skill, ...], agents: int) -> None:
        self.skills, self.names = SkillSet(skills, agents), NAMES


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with llama_server() as server:
        yield server.url


def prompt_in(pool: PlannerPool, text: str) -> Prompt:
    return prompt_of(text, pool.planner.tokenizer.count(text))


def told(pool: PlannerPool, text: str, ms: float = 60_000) -> Answer:
    answer, _ = ask(pool, ms, prompt_in(pool, text))
    assert answer.status == "done", answer.error
    assert answer.usage is not None
    return answer


def test_it_streams_counts_and_remembers_the_prompt(url: str) -> None:
    text = "[observation 1] The red ball lies in the hall.\n" * 8 + "Where is the ball?\n"
    with pool_at(url, tokenizer="server", max_tokens=4) as pool:
        first = told(pool, text)
        count = pool.planner.tokenizer.count(text)
        overhead = pool.planner.prompt_overhead
        second = told(pool, text)
        longer = told(pool, text * 2)
    assert first.text
    assert first.usage is not None
    assert second.usage is not None
    assert longer.usage is not None
    # SmolLM2's chat template: its system message, and the marks of the roles. A call path asks for it before.
    assert overhead == 30
    assert "the server adds 30 tokens to each prompt" in first.usage.note
    assert (first.usage.tokens_read or 0) + first.usage.tokens_cached == count + 30
    assert second.usage.tokens_cached > 0.9 * count
    assert "counted" not in second.usage.note + longer.usage.note
    assert "cut by the server at 4 tokens" in second.usage.note


def test_a_plain_completion_has_no_template(url: str) -> None:
    with pool_at(url, tokenizer="server", chat=False, max_tokens=4) as pool:
        answer = told(pool, "Count: one, two, three,")
    assert answer.usage is not None
    assert answer.usage.note == "cut by the server at 4 tokens"


def test_the_server_s_tokens_add_up_to_the_text(url: str) -> None:
    text = "[observation 3 a1] die Tür der Küche\n goto(red ball) 手が届かない 🤖 1234\n"
    with planner_at(url, tokenizer="server") as planner:
        spans = planner.tokenizer.spans(text)
        assert len(spans) == planner.tokenizer.count(text)
    assert (spans[0][0], spans[-1][1]) == (0, len(text))
    assert all(start <= end_before for (_, end_before), (start, _) in itertools.pairwise(spans))


@pytest.mark.parametrize("grammar", ["gbnf", "json_schema"])
@pytest.mark.parametrize(("skills", "agents"), [(HOUSE, 1), (HOUSE, 3), (AIR, 2)])
def test_within_a_grammar_even_this_model_writes_plans(
    grammar: str, skills: tuple[Skill, ...], agents: int, url: str
) -> None:
    world = FakeHouse(skills, agents)
    text = f"{world.skills.describe()}\nThe red ball is in the hall. Bring it to room 2.\nPlan:\n"
    # Hot, so that the grammar is what keeps it to plans.
    options: dict[str, Any] = {"temperature": 1.5, "extra": {"seed": 7}, "max_tokens": 48}
    with pool_at(url, tokenizer="server", grammar=grammar, **options) as pool:
        pool.planner.bind(world)  # type: ignore[attr-defined]
        answer = told(pool, text)
    assert answer.usage is not None
    assert "outside the grammar" not in answer.usage.note
    cut = "cut by the server" in answer.usage.note
    assert outside(answer.text, world.skills, world.names, cut=cut) == ""
    assert parse_partial(answer.text, world.skills)[0]


def test_without_one_it_does_not(url: str) -> None:
    """Else the test above would show nothing."""
    world = FakeHouse(HOUSE, 1)
    with pool_at(url, max_tokens=30) as pool:
        answer = told(pool, f"{world.skills.describe()}\nBring the red ball to room 2.\nPlan:\n")
    assert outside(answer.text, world.skills, world.names)


@pytest.mark.parametrize("where", ["prefill", "decode"])
@patient
def test_the_deadline_holds_and_the_server_is_free_again(where: str, url: str) -> None:
    long = "the door is open " * 100
    texts = [f"{index}: {long}" if where == "prefill" else "Count!" for index in range(CALLS)]
    with (
        pool_at(url, tokenizer="server", max_tokens=400, extra={"ignore_eos": True}) as pool,
        pool_at(url, tokenizer="server", max_tokens=1) as brief,
    ):
        told(brief, "Count!")
        asked = [ask(pool, 150, prompt_in(pool, text)) for text in texts]
        hung = pool._hung
        after = told(brief, "Hello")
    late = sorted(late_ms for _, late_ms in asked)
    print(
        f"llama.cpp cut in {where}: {statistics.median(late):.2f} ms late (median), {late[-1]:.2f} ms (most)"
    )
    print(f"{after.prefill_ms:.0f} ms to the next call's first word")
    assert {answer.status for answer, _ in asked} == {"cut"}
    assert any(answer.text for answer, _ in asked) == (where == "decode")
    assert late[-1] < 50
    assert hung == 0


def test_an_episode_runs_on_it(url: str) -> None:
    options = {"tokenizer": "server", "grammar": "gbnf", "max_tokens": 24}
    _, calls, hung = play(url, 20_000, dt=1.0, max_steps=8, **options)
    # The last one may still be in flight when the episode ends.
    assert {call.status for call in calls[:-1]} <= {"ok", "partial"}
    assert calls[-1].status in ("ok", "partial", "cancelled")
    assert calls[0].plan
    assert {(call.counted_by, call.planner) for call in calls} == {("server (/tokenize)", "openai (fake)")}
    assert all(call.tokens_read + call.tokens_cached == call.tokens_after for call in calls)
    assert hung == 0


def test_a_prompt_too_long_for_the_model_is_said(url: str) -> None:
    with pool_at(url) as pool:
        answer, _ = ask(pool, 30_000, prompt_of("word " * 4000))
    assert answer.status == "failed"
    assert (
        "answered 400 for model 'fake': request (4031 tokens) exceeds the available context" in answer.error
    )


def test_a_server_that_wants_a_key_and_one_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("LLAMA_KEY", KEY)
    with llama_server(KEY) as server:
        with pool_at(server.url) as pool:
            assert "answered 401: it wants a key" in ask(pool)[0].error
        with planner_at(server.url, tokenizer="server") as planner, pytest.raises(ConfigError, match="401"):
            planner.tokenizer.count("x")
        pool_with_key = pool_at(server.url, key_env="LLAMA_KEY", tokenizer="server", max_tokens=4)
        with pool_with_key as pool:
            assert told(pool, "Hello").text
            before = pool.planner.tokenizer.count("Hello there")
            # From here on it is gone; what was counted stays counted, the rest is estimated.
            server.stop()
            gone, late_ms = ask(pool)
            assert (gone.status, late_ms < -1000) == ("failed", True)
            assert "cannot reach" in gone.error or "lost the connection" in gone.error
            assert pool.planner.tokenizer.count("Hello there") == before
            assert pool.planner.tokenizer.count("Hello again") == EstimateTokenizer().count("Hello again")
            assert KEY not in gone.error
