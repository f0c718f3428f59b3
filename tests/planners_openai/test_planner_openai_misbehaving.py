"""Whatever the server does, the loop is back in time, the record says why, and the next call works."""

from __future__ import annotations

import json

import pytest
from fake_server import (
    DONE,
    KEY,
    Behaviour,
    answers,
    ask,
    chunk,
    data,
    endless,
    endless_line,
    endless_reasoning,
    event,
    head,
    patient,
    play,
    pool_at,
    refuses,
    resets,
    sends_and_closes,
    sends_then_waits,
    serving,
    streams,
    trickles,
)

from brace.ledger.records import Call

DEADLINE_MS = 250.0
LATE_MS = 50.0
ERROR = json.dumps({"error": {"message": "no such thing", "type": "fake"}})
ECHO = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}})

TOO_SLOW: dict[str, Behaviour] = {
    "no headers": sends_then_waits(),
    "half a header": sends_then_waits(b"HTTP/1.1 200 OK\r\nContent-"),
    "trickling headers": trickles(b"HTTP/1.1 200 OK\r\n", b"X-Fake: 1\r\n"),
    "headers only": sends_then_waits(head()),
    "stall mid-stream": sends_then_waits(head(), chunk(event("goto("))),
    "stall mid-event": sends_then_waits(head(), chunk(event("goto("))[:-9]),
    "trickling chunk": trickles(head() + b"ffff\r\n", b"x"),
    "comments only": trickles(head(), chunk(b": keep-alive\n\n")),
    "stall before the end": sends_then_waits(head(), chunk(event("goto(5)"))),
    "slow endless": trickles(head(), chunk(event(" "))),
    "refusal without end": sends_then_waits(head("500 Oops", "application/json"), chunk(b"{")),
}
FAILING: dict[str, tuple[Behaviour, str]] = {
    "reset at once": (resets(), "lost the connection"),
    "reset mid-stream": (resets(head(), chunk(event("goto("))), "lost the connection"),
    "closed at once": (sends_and_closes(), "lost the connection"),
    "closed mid-stream": (sends_and_closes(head(), chunk(event("goto("))), "lost the connection"),
    "ended before its end": (streams(event("goto(5)")), "ended before the answer did"),
    "not HTTP": (sends_and_closes(b"SSH-2.0-fake\r\n\r\n"), "lost the connection .*illegal"),
    "chunked garbage": (sends_and_closes(head(), b"zz\r\ngarbage\r\n"), "lost the connection"),
    "429": (refuses("429 Too Many Requests", ERROR), "429 .*no such thing"),
    "429 for long": (refuses("429 Too Many Requests", ERROR, Retry_After="30"), "429 .*no such thing"),
    "503": (refuses("503 Loading", ERROR), "503 .*no such thing"),
    "500": (refuses("500 Oops", "<html>Oops</html>", "text/html"), "500 .*<html>Oops"),
    "wrong model, 404": (refuses("404 Not Found", ERROR), "404 for model 'fake': no such thing; .*/v1"),
    "wrong model, 400": (refuses("400 Bad Request", ERROR), "400 for model 'fake': no such thing"),
    "moved": (refuses("307 Moved", "", Location="http://127.0.0.1:1/"), "answered 307"),
    "401": (refuses("401 Unauthorized", ECHO), "401: the key in FAKE_KEY is refused"),
    "403": (refuses("403 Forbidden", ECHO), "403: the key in FAKE_KEY is refused"),
    "400 that repeats the key": (refuses("400 Bad Request", ECHO), "400 for .*provided: …"),
    "invalid JSON": (streams(data('{"choices": [')), "cannot read the stream"),
    "JSON of another kind": (streams(data('{"choices": "goto(5)"}')), "cannot read the stream"),
    "not UTF-8": (streams(b'data: {"choices": "\xff\xfe"}\n\n'), "cannot read the stream"),
    "invalid JSON with the key": (streams(data("{" + KEY)), "cannot read the stream .*'{…'"),
    "an error event": (streams(event("goto("), data(ERROR)), "broke off: no such thing"),
    "an error event with the key": (streams(data(ECHO)), "broke off: .*provided: …"),
    "not a stream": (refuses("200 OK", '{"choices": []}'), "does not stream; it sent application/json"),
    "a login page": (refuses("200 OK", "<html>Wi-Fi</html>", "text/html"), "does not stream.*Wi-Fi"),
    "endless text": (endless, "endless output: .*max_tokens"),
    "endless reasoning": (endless_reasoning, "endless output: .*max_tokens"),
    "endless line": (endless_line, "endless output: .*bytes"),
    "nothing": (answers("", ""), "wrote no plan .*'stop'"),
    "filtered": (answers("", finish="content_filter"), "wrote no plan .*'content_filter'"),
    "nothing but an end": (streams(DONE), "ended before the answer did"),
}

WHOLE = "stall before the end"
TRIED_AGAIN = ["reset at once", "closed at once", "not HTTP", "chunked garbage", "429", "503"]


@pytest.mark.parametrize("name", TOO_SLOW)
@patient
def test_a_server_that_is_too_slow_is_hung_up_on_at_the_deadline(name: str) -> None:
    with serving(TOO_SLOW[name], then=answers()) as server, pool_at(server.url) as pool:
        answer, late_ms = ask(pool, DEADLINE_MS)
        assert (answer.status, answer.error) == ("cut", "")
        assert 0 <= late_ms < LATE_MS
        after, _ = ask(pool)
        # The only worker was free again: it had left the server by itself.
        assert (after.status, after.text) == ("done", "goto(5)")
        assert after.queue_ms < LATE_MS
        assert pool._hung == 0


@pytest.mark.parametrize("name", FAILING)
@patient
def test_a_broken_answer_is_an_error_that_says_what_is_wrong(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_KEY", KEY)
    behave, message = FAILING[name]
    with serving(behave) as server, pool_at(server.url, key_env="FAKE_KEY") as pool:
        answer, late_ms = ask(pool, 2000)
        assert answer.status == "failed"
        assert late_ms < 0, "it did not wait for the deadline"
        with pytest.raises(AssertionError, match=message):
            raise AssertionError(answer.error)
        assert KEY[:12] not in answer.error
        assert pool._hung == 0


def test_what_was_written_before_the_stall_is_kept() -> None:
    behave = sends_then_waits(head(), chunk(event("goto(4); ")), chunk(event("goto(")))
    with serving(behave) as server, pool_at(server.url) as pool:
        answer, _ = ask(pool, 100)
    assert (answer.text, answer.status) == ("goto(4); goto(", "cut")


GOOD = answers(usage_of={"prompt_tokens": 90})


def check_good(call: Call) -> None:
    assert (call.status, call.plan, call.missed, call.error) == ("ok", "goto(5)", False, "")
    assert (call.planner, call.tokens_read) == ("openai (fake)", 90)
    assert "estimate" in call.counted_by


@pytest.mark.parametrize("name", [name for name in TOO_SLOW if name != WHOLE])
@patient
def test_an_episode_goes_on_after_a_call_that_was_cut(name: str) -> None:
    with serving(TOO_SLOW[name], then=GOOD) as server:
        success, calls, hung = play(server.url, DEADLINE_MS)
    assert (success, hung, len(calls)) == (True, 0, 2)
    first, last = calls
    assert (first.status, first.missed, first.fallback, first.plan) == ("cut", True, "stop", "")
    assert DEADLINE_MS <= first.latency_ms < DEADLINE_MS + LATE_MS
    check_good(last)


@patient
def test_a_plan_that_was_whole_but_not_ended_is_used() -> None:
    with serving(TOO_SLOW[WHOLE]) as server:
        success, calls, hung = play(server.url, DEADLINE_MS)
    assert (success, hung, len(calls)) == (True, 0, 1)
    (call,) = calls
    assert (call.status, call.missed, call.plan) == ("partial", True, "goto(5)")


@pytest.mark.parametrize("name", [name for name in FAILING if name not in TRIED_AGAIN])
@patient
def test_an_episode_goes_on_after_a_call_that_failed(name: str) -> None:
    with serving(FAILING[name][0], then=GOOD) as server:
        success, calls, hung = play(server.url, DEADLINE_MS)
    assert (success, hung, len(calls)) == (True, 0, 2)
    first, last = calls
    assert (first.status, first.missed, first.fallback, first.plan) == ("failed", False, "stop", "")
    assert first.error.startswith(("EndpointError: ", "PassingError: "))
    check_good(last)


@pytest.mark.parametrize("name", TRIED_AGAIN)
@patient
def test_what_may_be_over_in_a_moment_is_tried_once_more_within_the_call(name: str) -> None:
    with serving(FAILING[name][0], then=GOOD) as server:
        success, calls, hung = play(server.url, DEADLINE_MS)
        assert len(server.requests) == 2
    assert (success, hung, len(calls)) == (True, 0, 1)
    check_good(calls[0])
