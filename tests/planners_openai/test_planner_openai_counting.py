"""Counting in tokens of a model that runs elsewhere, and noticing when the counts disagree."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fake_server import (
    FakeServer,
    Request,
    answers,
    ask,
    chunk,
    event,
    head,
    patient,
    planner_at,
    pool_at,
    prompt_of,
    refuses,
    resets,
    sends_then_waits,
    serving,
)
from hypothesis import given
from hypothesis import strategies as st

from brace.callpath import CallPath, Fit, Mode
from brace.callpath.compress import NoCompression
from brace.context import PromptTemplate, Tokenizer, WordTokenizer
from brace.errors import ConfigError
from brace.planners import Deadline, Usage
from brace.planners.endpoint import counting
from brace.planners.endpoint.counting import CountCheck, EstimateTokenizer, spans_of_pieces


def tokenizes(connection: socket.socket, request: Request) -> None:
    """A fake `/tokenize`: a token for each character, spelt as llama.cpp spells them."""
    assert (request.path, request.body["add_special"]) == ("/tokenize", False)
    tokens: list[Any] = [ord(char) for char in request.body["content"]]
    if request.body["with_pieces"]:
        tokens = [{"id": token, "piece": chr(token)} for token in tokens]
    body = json.dumps({"tokens": tokens}).encode()
    connection.sendall(head(kind="application/json") + chunk(body) + chunk(b""))


@contextmanager
def server_tokenizer() -> Iterator[tuple[FakeServer, Tokenizer]]:
    with serving(tokenizes) as server, planner_at(server.url, tokenizer="server") as planner:
        yield server, planner.tokenizer


def renders(connection: socket.socket, request: Request) -> None:
    """A fake `/apply-template`: five characters before the message, six after it."""
    if request.path == "/tokenize":
        return tokenizes(connection, request)
    assert request.path == "/apply-template"
    body = json.dumps({"prompt": f"user:{request.body['messages'][0]['content']}robot:"}).encode()
    connection.sendall(head(kind="application/json") + chunk(body) + chunk(b""))
    return None


def test_the_server_s_template_is_part_of_every_count() -> None:
    with serving(renders) as server, planner_at(server.url, tokenizer="server") as planner:
        assert planner.prompt_overhead == 11
    with serving(renders) as server, planner_at(server.url, tokenizer="server", chat=False) as planner:
        assert planner.prompt_overhead == 0


@pytest.mark.parametrize("answer", ["{}", "[]", "no JSON", '{"prompt": 3}', '{"prompt": "nothing of it"}'])
def test_a_server_that_does_not_say_what_it_adds_adds_nothing_beforehand(answer: str) -> None:
    with serving(refuses("200 OK", answer)) as server, planner_at(server.url, tokenizer="server") as planner:
        assert planner.prompt_overhead == 0


def test_a_connection_lost_once_is_no_answer_lost() -> None:
    with serving(resets(), renders) as server, planner_at(server.url, tokenizer="server") as planner:
        assert planner.prompt_overhead == 11
        assert len(server.requests) == 4
    with serving(resets(), tokenizes) as server, planner_at(server.url, tokenizer="server") as planner:
        assert planner.tokenizer.count("abc") == 3


@pytest.mark.parametrize(
    ("behave", "reason"),
    [(resets(), "lost the connection"), (sends_then_waits(), "no answer in 0.1 s")],
)
def test_a_template_that_cannot_be_asked_for_is_an_error_and_not_nothing(
    behave: Callable[..., None], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "TEMPLATE_ANSWER_S", 0.1)
    with (
        serving(behave) as server,
        planner_at(server.url, tokenizer="server") as planner,
        pytest.raises(ConfigError, match=rf"chat template.*/apply-template.*{reason}"),
    ):
        _ = planner.prompt_overhead


def test_an_estimate_has_a_margin_and_says_what_it_is() -> None:
    tokenizer = EstimateTokenizer()
    words = WordTokenizer()
    text = "[observation 3] the refrigerator door is open\n"
    assert tokenizer.count(text) >= 1.3 * words.count(text)
    assert tokenizer.count("") == 0
    assert tokenizer.spans(text) == words.spans(text)
    assert "estimate" in tokenizer.name


def test_the_server_is_asked_once_for_each_text() -> None:
    with server_tokenizer() as (server, tokenizer):
        assert [tokenizer.count(text) for text in ("ab", "abc", "ab", "abc")] == [2, 3, 2, 3]
        assert tokenizer.spans("ab") == tokenizer.spans("ab") == [(0, 1), (1, 2)]
        assert [request.body["content"] for request in server.requests] == ["ab", "abc", "ab"]
        assert {request.connection for request in server.requests} == {1}
        assert "server" in tokenizer.name


@pytest.mark.parametrize(
    ("behave", "message"),
    [
        (refuses("404 Not Found", "{}"), "it answered 404"),
        (refuses("200 OK", "{}"), "tokens"),
        (refuses("200 OK", "<html>"), "malformed"),
        (sends_then_waits(), "no answer in 0.1 s"),
    ],
)
def test_a_server_that_cannot_count_is_a_clear_error_at_the_start(
    behave: Callable[..., None], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "FIRST_ANSWER_S", 0.1)
    with (
        serving(behave) as server,
        planner_at(server.url, tokenizer="server") as planner,
        pytest.raises(ConfigError, match=rf"tokenizer = 'server'.*/tokenize.*{message}"),
    ):
        planner.tokenizer.count("the template")


@patient
def test_a_server_that_stops_counting_does_not_stop_the_robot() -> None:
    with server_tokenizer() as (server, tokenizer):
        assert tokenizer.count("abc") == 3
        server.behave = server.then = sends_then_waits()
        start = time.perf_counter()
        estimates = [tokenizer.count(f"a new line {index}") for index in range(20)]
        # One short wait, then it is left alone for a while.
        assert time.perf_counter() - start < 0.25 + 0.2
        assert estimates == [EstimateTokenizer().count(f"a new line {index}") for index in range(20)]
        assert tokenizer.count("abc") == 3
        assert tokenizer.spans("a b") == WordTokenizer().spans("a b")


@patient
def test_after_the_deadline_nobody_asks_the_server_how_much_it_has_written() -> None:
    stalls = sends_then_waits(head(), chunk(event("goto(")), chunk(event("ki")))

    def behave(connection: socket.socket, request: Request) -> None:
        if request.path == "/apply-template":
            return refuses("404 Not Found", "{}")(connection, request)
        if request.path == "/tokenize" and len(server.requests) == 2:
            return tokenizes(connection, request)
        return stalls(connection, request)

    with serving(behave) as server, pool_at(server.url, tokenizer="server") as pool:
        path = CallPath(pool, {"full": Mode(PromptTemplate("{context}Plan:\n"), (Fit(NoCompression()),))})
        result = path.run(path.open([], "full", deadline=Deadline(150)))
        assert [request.path for request in server.requests] == [
            "/apply-template", "/tokenize", "/v1/chat/completions",
        ]  # fmt: skip
    assert (result.status, result.output, result.tokens_out) == ("cut", "goto(ki", 2)
    assert result.latency_ms < 200


def test_estimates_in_place_of_counts_are_noted_and_end_when_the_server_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counting, "REST_S", 0.05)
    with serving(tokenizes) as server, pool_at(server.url, tokenizer="server") as pool:
        count = pool.planner.tokenizer.count
        count("abc")
        server.behave = server.then = refuses("500 Oops", "{}")
        assert count("abcdef") == 2
        server.behave = server.then = answers()
        noted, _ = ask(pool)
        silent, _ = ask(pool, prompt=prompt_of(tokens=12))
        server.behave = server.then = tokenizes
        time.sleep(0.06)
        assert count("abcdef") == 6
    note = "1 token counts are estimates: the server's /tokenize did not answer"
    assert noted.usage == Usage(8, 4, note=note)
    assert silent.usage == Usage(8, 4)


@given(st.text(max_size=20), st.integers(1, 5), st.sampled_from(["", " "]))
def test_spans_cover_the_text_also_where_tokens_split_characters(text: str, size: int, added: str) -> None:
    raw = (added + text).encode()
    pieces = [raw[index : index + size] for index in range(0, len(raw), size)]
    spans = spans_of_pieces([_as_llama_writes(piece) for piece in pieces], text)
    assert spans is not None
    assert len(spans) == len(pieces)
    reached = 0
    for start, end in spans:
        assert start <= reached <= end
        reached = end
    assert reached == len(text)


def test_where_tokens_lie_is_known_to_the_character() -> None:
    pieces = ["goto", "(", [0x20, 0xC3], [0xBC], "x)"]
    assert spans_of_pieces(pieces, "goto( üx)") == [(0, 4), (4, 5), (5, 7), (6, 7), (7, 9)]
    assert spans_of_pieces([" ", "goto", "(x)"], "goto(x)") == [(0, 0), (0, 4), (4, 7)]


def test_pieces_of_another_text_have_no_place_in_this_one() -> None:
    assert spans_of_pieces(["GOTO", "(x)"], "goto(x)") is None
    assert spans_of_pieces(["goto"], "goto(x)") is None


def _as_llama_writes(piece: bytes) -> str | list[int]:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)


def test_a_model_s_own_tokenizer_counts_here(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({"go": 0, "there": 1}))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    backend.save(str(tmp_path / "tokenizer.json"))
    with serving(answers()) as server, planner_at(server.url, tokenizer=str(tmp_path)) as planner:
        assert planner.tokenizer.count("go go there") == 3
        assert server.requests == []


# The server's count against ours --------------------------------------------------------------------------


def notes(check: CountCheck, *pairs: tuple[int, int]) -> list[str]:
    return [check.compare(ours, {"prompt_tokens": theirs})[2] for ours, theirs in pairs]


def test_what_a_template_adds_is_learnt_at_the_first_call() -> None:
    first, *later = notes(CountCheck(WordTokenizer()), (100, 130), (400, 430), (900, 931), (7, 37))
    assert first == "the server adds 30 tokens to each prompt"
    assert later == [""] * 3


def test_a_count_that_differs_from_what_was_learnt_is_noted() -> None:
    _, more, fewer, fine = notes(CountCheck(WordTokenizer()), (100, 130), (400, 520), (400, 300), (400, 430))
    assert more == "the server counted 520 prompt tokens, we 400 plus 30 of its template"
    assert fewer == "the server counted 300 prompt tokens, we 400 plus 30 of its template"
    assert fine == ""


@pytest.mark.parametrize("theirs", [90, 229, 4000])
def test_a_first_count_that_no_template_explains_is_not_learnt(theirs: int) -> None:
    first, second = notes(CountCheck(WordTokenizer()), (100, theirs), (100, 130))
    assert "no chat template explains that" in first
    assert second == "the server adds 30 tokens to each prompt"


def test_an_estimate_is_noted_where_it_is_too_low_or_far_too_high() -> None:
    low, near, fine, high = notes(
        CountCheck(EstimateTokenizer()), (100, 101), (100, 100), (100, 51), (100, 49)
    )
    assert "too low: the budget was exceeded" in low
    assert (near, fine) == ("", "")
    assert "far too high" in high
