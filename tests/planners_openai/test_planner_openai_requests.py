"""What is asked of the server, what is made of its answer, and which options are refused."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from fake_server import DONE, KEY, answers, ask, data, event, planner_at, pool_at, refuses, serving, streams

import brace.planners.endpoint as endpoint_package
from brace.errors import ConfigError, MissingExtraError
from brace.planners import Usage
from brace.planners.openai import OpenAIPlanner, find_key
from brace.registry import planners
from fake_world import FakeLine

URL = "http://127.0.0.1:9/v1"


def sent(behave: Any = None, **options: Any) -> Any:
    """The first request of a call with these options."""
    with serving(behave or answers()) as server, pool_at(server.url, **options) as pool:
        ask(pool)
        return server.requests[0]


@pytest.fixture(autouse=True)
def no_key_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def test_a_chat_is_one_message_streamed_with_its_usage() -> None:
    request = sent()
    assert request.path == "/v1/chat/completions"
    assert request.body == {
        "model": "fake",
        "messages": [{"role": "user", "content": "reach 5\nPlan:\n"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 64,
        "temperature": 0.0,
    }


def test_a_plain_completion_ends_with_its_line() -> None:
    text = data('{"choices": [{"text": "goto(5)", "finish_reason": "stop"}]}')
    with serving(streams(text, DONE)) as server, pool_at(server.url, chat=False) as pool:
        answer, _ = ask(pool)
        (request,) = server.requests
    assert answer.text == "goto(5)"
    assert request.path == "/v1/completions"
    assert (request.body["prompt"], request.body["stop"]) == ("reach 5\nPlan:\n", ["\n"])
    assert "messages" not in request.body


def test_extra_fields_are_sent_as_they_are() -> None:
    extra = {"max_completion_tokens": 99, "chat_template_kwargs": {"enable_thinking": False}}
    body = sent(extra=extra, temperature=None).body
    assert body.items() >= extra.items()
    assert not {"max_tokens", "temperature"} & set(body)


def test_the_server_says_what_it_read_and_what_it_had() -> None:
    with serving(answers()) as server, pool_at(server.url) as pool:
        answer, _ = ask(pool)
    assert answer.text == "goto(5)"
    assert answer.usage == Usage(tokens_read=8, tokens_cached=4)


@pytest.mark.parametrize(
    ("usage", "note"),
    [
        (None, "gave no usage"),
        ({"prompt_tokens": 0}, "makes no sense"),
        ({"prompt_tokens": -3}, "makes no sense"),
        ({"prompt_tokens": "twelve"}, "makes no sense"),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 6}}, "makes no sense"),
        ({"completion_tokens": 5}, "makes no sense"),
        ({"prompt_tokens": 5000}, "counted 5000 prompt tokens, we 12"),
    ],
)
def test_a_wrong_usage_is_noted_and_does_no_harm(usage: dict[str, Any] | None, note: str) -> None:
    with serving(answers(usage_of=usage)) as server, pool_at(server.url) as pool:
        answer, _ = ask(pool)
    assert (answer.status, answer.text) == ("done", "goto(5)")
    assert answer.usage is not None
    assert note in answer.usage.note
    assert answer.usage.tokens_read == (5000 if "5000" in note else None)


def test_null_details_of_the_usage_mean_nothing_cached() -> None:
    usage = {"prompt_tokens": 12, "prompt_tokens_details": None}
    with serving(answers(usage_of=usage)) as server, pool_at(server.url) as pool:
        assert ask(pool)[0].usage == Usage(tokens_read=12)


def test_an_answer_the_server_cut_short_says_so() -> None:
    with serving(answers("goto(4); go", finish="length")) as server, pool_at(server.url) as pool:
        answer, _ = ask(pool)
    assert answer.usage is not None
    assert "cut by the server at 64 tokens" in answer.usage.note


def test_reasoning_is_no_plan() -> None:
    thought = data('{"choices": [{"delta": {"reasoning_content": "I should go."}}]}')
    first_thinks = streams(thought, event("goto(5)"), event(None, "stop"), DONE)
    with serving(first_thinks) as server, pool_at(server.url) as pool:
        assert ask(pool)[0].text == "goto(5)"
    with serving(streams(thought, event(None, "length"), DONE)) as server, pool_at(server.url) as pool:
        error = ask(pool)[0].error
    assert "no plan, only 12 characters of reasoning (finish_reason 'length')" in error


def test_events_may_be_split_anywhere() -> None:
    whole = event("goto(") + event("ö)") + event(None, "stop") + DONE
    pieces = [whole[index : index + 3] for index in range(0, len(whole), 3)]
    with serving(streams(*pieces)) as server, pool_at(server.url) as pool:
        assert ask(pool)[0].text == "goto(ö)"


def test_carriage_returns_and_comments_are_skipped() -> None:
    lines = [event("goto(5)"), b": ping\n\n", b"event: message\n", event(None, "stop"), DONE]
    behave = streams(*(line.replace(b"\n", b"\r\n") for line in lines))
    with serving(behave) as server, pool_at(server.url) as pool:
        assert ask(pool)[0].text == "goto(5)"


# The key --------------------------------------------------------------------------------------------------


def test_the_key_goes_to_the_server_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBOT_KEY", f" {KEY}\n")
    assert sent(key_env="ROBOT_KEY").headers["authorization"] == f"Bearer {KEY}"
    with planner_at(URL, key_env="ROBOT_KEY") as planner:
        assert KEY not in repr(planner) + planner.name


def test_no_key_is_needed_unless_the_server_wants_one() -> None:
    refusing = refuses("401 Unauthorized", '{"error": {"message": "Invalid API Key"}}')
    assert "authorization" not in sent().headers
    with serving(refusing) as server, pool_at(server.url) as pool:
        answer, _ = ask(pool)
    assert "it wants a key; put it into an environment variable" in answer.error


def test_a_key_that_nobody_named_is_not_sent_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert find_key(None, "http://localhost:8080/v1") == KEY
    assert find_key(None, "https://api.openai.com/v1") == KEY
    assert find_key(None, "http://192.168.1.7:8080/v1") == ""
    assert find_key("OPENAI_API_KEY", "http://192.168.1.7:8080/v1") == KEY


@pytest.mark.parametrize("value", ["two words", "schlüssel", "a\nb"])
def test_what_cannot_be_a_key_is_refused_without_being_shown(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROBOT_KEY", value)
    with pytest.raises(ConfigError, match="ROBOT_KEY holds no valid key") as caught:
        OpenAIPlanner(URL, "fake", key_env="ROBOT_KEY")
    assert value not in str(caught.value)


# Options --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_url": "127.0.0.1:8080"}, "base_url = .*http"),
        ({"base_url": 8080}, "'base_url' = 8080: Expected `str`, got `int`"),
        ({"base_url": "http://user:pw@host/v1"}, "base_url has a user, a password or a query"),
        ({"base_url": "https://host/v1?key=pw"}, "base_url has a user, a password or a query"),
        ({"model": ""}, "model = ''"),
        ({"model": 7}, "'model' = 7: Expected `str`, got `int`"),
        ({"max_tokens": 0}, "max_tokens = 0: must be a whole number"),
        ({"max_tokens": "many"}, "'max_tokens' = 'many': Expected `int`, got `str`"),
        ({"max_tokens": True}, "'max_tokens' = True: Expected `int`, got `bool`"),
        ({"extra": {"max_completion_tokens": 1.5}}, "max_tokens = 1.5"),
        ({"extra": ["seed"]}, "'extra' = .*Expected `object . null`, got `array`"),
        ({"temperature": -1}, "temperature = -1"),
        ({"temperature": "hot"}, "'temperature' = 'hot': Expected `float . null`"),
        ({"grammar": "bnf"}, "'grammar' = 'bnf'.*known: none, gbnf, json_schema"),
        ({"grammar": "json_schema", "chat": False}, "only chats have a response_format"),
        ({"chat": "yes"}, "'chat' = 'yes': Expected `bool`, got `str`"),
        ({"key_env": "NOT_SET_ANYWHERE"}, "key_env = 'NOT_SET_ANYWHERE'.*not set"),
        ({"tokenizer": "/nowhere/tokenizer.json"}, "no tokenizer at"),
        ({"retries": 3}, "has no option 'retries'"),
    ],
)
def test_a_wrong_option_is_refused_with_the_remedy(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        planners.create("openai", {"base_url": URL, "model": "fake", **options})
    assert "pw" not in str(caught.value)


def test_a_wrong_choice_is_refused_also_where_no_registry_made_the_planner() -> None:
    with pytest.raises(ConfigError, match="planner 'openai', option 'grammar' = 'bnf'; did you mean 'gbnf'"):
        OpenAIPlanner(URL, "fake", grammar="bnf")  # type: ignore[arg-type]


def test_every_option_has_its_type_and_says_what_it_does() -> None:
    options = {option.name: option for option in planners.options("openai")}
    assert list(options) == [
        "base_url", "model", "key_env", "tokenizer", "max_tokens", "temperature", "grammar", "chat", "extra",
    ]  # fmt: skip
    assert options["tokenizer"].type == "str | None"
    assert options["base_url"].default == ""
    assert all(option.doc for option in options.values())


def test_base_url_and_model_must_be_given() -> None:
    with pytest.raises(ConfigError, match=r"openai.*base_url.*model"):
        planners.create("openai", {})


def test_without_its_library_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("wire", "counting"):
        monkeypatch.delitem(sys.modules, f"brace.planners.endpoint.{module}", raising=False)
        monkeypatch.delattr(endpoint_package, module, raising=False)
    monkeypatch.setitem(sys.modules, "httpcore2", None)
    with pytest.raises(MissingExtraError, match=r"httpcore2 is not installed.*brace-replan\[endpoint\]"):
        OpenAIPlanner(URL, "fake")


def test_a_grammar_without_a_world_is_an_error_of_the_call() -> None:
    with serving(answers()) as server, pool_at(server.url, grammar="gbnf") as pool:
        answer, _ = ask(pool)
        assert server.requests == []
    assert (answer.status, "call bind(world) first" in answer.error) == ("failed", True)


def test_an_answer_outside_the_grammar_is_noted() -> None:
    for text, noted in (("goto(5)", False), ("Sure! I go to 5.", True), ("goto(home)", True)):
        with serving(answers(text)) as server, pool_at(server.url, grammar="gbnf") as pool:
            pool.planner.bind(FakeLine())  # type: ignore[attr-defined]
            answer, _ = ask(pool)
            assert server.requests[0].body["grammar"].startswith("root ::= line\n")
        assert answer.usage is not None
        assert ("outside the grammar" in answer.usage.note) is noted


def test_a_json_answer_comes_out_as_plan_text() -> None:
    pieces = ('{"pl', 'an": "goto', "(4); got", 'o(5)"', "\n}")
    with serving(answers(*pieces)) as server, pool_at(server.url, grammar="json_schema") as pool:
        pool.planner.bind(FakeLine())  # type: ignore[attr-defined]
        answer, _ = ask(pool)
        wanted = server.requests[0].body["response_format"]
    assert (answer.text, answer.usage) == ("goto(4); goto(5)", Usage(8, 4))
    assert (wanted["type"], wanted["json_schema"]["strict"]) == ("json_schema", True)
