"""Every wait ends with the call: at its deadline to the millisecond, at its cancellation soon after."""

from __future__ import annotations

import shutil
import socket
import ssl
import statistics
import subprocess
import threading
import time
from pathlib import Path

import pytest
from fake_server import (
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
    trickles,
)

from brace.planners import Deadline

CALLS = 100
ERROR = '{"error": {"message": "busy"}}'


@pytest.mark.parametrize(
    "behave",
    [sends_then_waits(), sends_then_waits(head(), chunk(event("goto(")))],
    ids=["before the headers", "mid-stream"],
)
@patient
def test_how_late_after_the_deadline_a_stalled_call_returns(behave: object) -> None:
    with serving(behave) as server, pool_at(server.url) as pool:  # type: ignore[arg-type]
        late = sorted(ask(pool, 25)[1] for _ in range(CALLS))
        hung = pool._hung
    p50, p99 = statistics.median(late), late[int(0.99 * CALLS) - 1]
    print(f"after the deadline, {CALLS} calls: P50 {p50:.2f} ms, P99 {p99:.2f} ms, most {late[-1]:.2f} ms")
    assert p50 < 5
    assert p99 < 50
    assert hung == 0


@patient
def test_the_server_sees_the_connection_closed_at_the_deadline() -> None:
    with serving(sends_then_waits(head(), chunk(event("goto(")))) as server, pool_at(server.url) as pool:
        start = time.perf_counter()
        ask(pool, 150)
        time.sleep(0.06)
        (closed,) = server.hung_up
    assert 0.15 <= closed - start < 0.2


@pytest.mark.parametrize("behave", [sends_then_waits(), trickles(head(), b"1\r\n \r\n")])
@patient
def test_a_cancelled_call_hangs_up_although_it_had_all_the_time_in_the_world(behave: object) -> None:
    with serving(behave) as server, pool_at(server.url) as pool:  # type: ignore[arg-type]
        with Deadline(None) as deadline:
            timer = threading.Timer(0.1, deadline.cancel, ["goal"])
            timer.start()
            answer = pool.ask(prompt_of(), deadline)
        timer.join()
        time.sleep(0.05)
        assert answer.status == "cancelled"
        assert len(server.hung_up) == 1
        assert pool._hung == 0


@patient
def test_a_name_look_up_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answered = threading.Event(), threading.Event()

    def slow(*args: object, **kwargs: object) -> list[object]:
        asked.set()
        answered.wait(10)
        raise socket.gaierror("no such host")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with pool_at("http://robot.invalid/v1") as pool:
        answer, late_ms = ask(pool, 100)
        assert asked.is_set()
        assert (answer.status, answer.error) == ("cut", "")
        assert late_ms < 50
        again, _ = ask(pool, 100)
        assert again.queue_ms < 50
        assert pool._hung == 0
    answered.set()


def test_a_connection_that_comes_too_late_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.create_connection

    def slow(*args: object, **kwargs: object) -> socket.socket:
        time.sleep(0.15)
        return connect(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "create_connection", slow)
    with serving(answers()) as server, pool_at(server.url) as pool:
        answer, _ = ask(pool, 50)
        assert answer.status == "cut"
        end = time.perf_counter() + 5
        while not server.hung_up and time.perf_counter() < end:
            time.sleep(0.01)
        assert server.hung_up
        assert server.requests == []


@patient
def test_a_server_that_does_not_read_is_hung_up_on_while_sending() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with pool_at(f"http://127.0.0.1:{deaf.getsockname()[1]}/v1") as pool:
            answer, late_ms = ask(pool, 200, prompt_of("word " * 4_000_000))
    assert (answer.status, answer.error) == ("cut", "")
    assert late_ms < 250


def test_nobody_there_is_said_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pool_at(f"http://127.0.0.1:{port}/v1") as pool:
        answer, late_ms = ask(pool, 2000)
    assert answer.status == "failed"
    assert f"cannot reach http://127.0.0.1:{port}/v1/chat/completions: [Errno 111] Connection refused" in (
        answer.error
    )
    assert "is the server running?" in answer.error
    assert late_ms < -1000


def test_the_connection_is_kept_between_calls_and_given_up_after_a_cut() -> None:
    with serving(answers()) as server, pool_at(server.url) as pool:
        assert [ask(pool)[0].text for _ in range(3)] == ["goto(5)"] * 3
        assert [request.connection for request in server.requests] == [1, 1, 1]
        server.behave = server.then = sends_then_waits(head())
        ask(pool, 100)
        server.behave = server.then = answers()
        assert ask(pool)[0].text == "goto(5)"
        assert [request.connection for request in server.requests] == [1, 1, 1, 1, 2]


def test_a_kept_connection_that_the_server_closed_meanwhile_costs_nothing() -> None:
    with serving(answers()) as server, pool_at(server.url) as pool:
        assert ask(pool)[0].status == "done"
        for connection in list(server._open):
            connection.shutdown(socket.SHUT_RDWR)
        time.sleep(0.05)
        answer, _ = ask(pool)
    assert (answer.status, answer.text) == ("done", "goto(5)")


@patient
def test_an_answer_that_is_all_there_does_not_wait_for_the_end_of_the_connection() -> None:
    whole = [head(), *map(chunk, [event("goto(5)"), event(None, "stop"), b"data: [DONE]\n\n"])]
    with serving(sends_then_waits(*whole)) as server, pool_at(server.url) as pool:
        answer, late_ms = ask(pool, 2000)
    assert (answer.status, answer.text) == ("done", "goto(5)")
    assert late_ms < -1800


@pytest.mark.parametrize(
    ("status", "wait", "ms", "requests"),
    [
        ("429 Busy", "1", 600, 1),
        ("429 Busy", "1", 3000, 2),
        ("503 Busy", "", 150, 1),
        ("503 Busy", "", 400, 2),
    ],
)
@patient
def test_a_second_try_is_made_only_if_there_is_time_for_it(
    status: str, wait: str, ms: float, requests: int
) -> None:
    busy = refuses(status, ERROR, **({"Retry_After": wait} if wait else {}))
    with serving(busy, then=answers()) as server, pool_at(server.url) as pool:
        answer, late_ms = ask(pool, ms)
        assert len(server.requests) == requests
    assert answer.status == ("done" if requests == 2 else "failed")
    assert late_ms < 0


def test_there_is_no_third_try() -> None:
    with serving(refuses("429 Busy", ERROR)) as server, pool_at(server.url) as pool:
        answer, _ = ask(pool)
        assert len(server.requests) == 2
    assert (answer.status, answer.text) == ("failed", "")


def test_nothing_is_tried_again_once_the_plan_has_begun() -> None:
    begun = resets(head(), chunk(event("goto(")))
    with serving(begun, then=answers()) as server, pool_at(server.url) as pool:
        answer, _ = ask(pool)
        assert len(server.requests) == 1
    assert (answer.status, answer.text) == ("failed", "goto(")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=fake"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return folder


def served_as(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    return context


@patient
def test_over_tls_too_a_stall_is_hung_up_on_and_the_connection_kept(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    with serving(answers(), context=served_as(certificate)) as server, pool_at(server.url) as pool:
        assert [ask(pool)[0].text for _ in range(2)] == ["goto(5)"] * 2
        assert [request.connection for request in server.requests] == [1, 1]
        server.behave = server.then = sends_then_waits(head(), chunk(event("goto(")))
        answer, late_ms = ask(pool, 150)
        assert (answer.status, answer.text) == ("cut", "goto(")
        assert late_ms < 50


def test_hanging_up_on_a_call_that_still_runs_harms_nobody(
    certificate: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A reader that came back to a closed socket would read from whatever file has its number by then."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    file = tmp_path / "bystander"
    file.write_bytes(b"x" * 4096)
    stall = sends_then_waits(head(), chunk(event("goto(")))
    with serving(stall, context=served_as(certificate)) as server, pool_at(server.url) as pool:
        for _ in range(20):
            assert ask(pool, 60)[0].status == "cut"
            pool.planner.close()  # type: ignore[attr-defined]
            with file.open("rb", buffering=0) as bystander:
                time.sleep(0.01)
                assert len(bystander.read()) == 4096


@patient
def test_a_handshake_that_stalls_is_left_behind() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as mute,
        pool_at(f"https://127.0.0.1:{mute.getsockname()[1]}/v1") as pool,
    ):
        answer, late_ms = ask(pool, 150)
        assert (answer.status, answer.error) == ("cut", "")
        assert late_ms < 50
        assert ask(pool, 150)[0].queue_ms < 50
        assert pool._hung == 0


def test_a_certificate_nobody_vouches_for_is_refused(certificate: Path) -> None:
    with serving(answers(), context=served_as(certificate)) as server, pool_at(server.url) as pool:
        answer, _ = ask(pool)
    assert answer.status == "failed"
    assert "CERTIFICATE_VERIFY_FAILED" in answer.error


@patient
def test_two_answers_read_in_turns_do_not_share_their_time() -> None:
    """Each call carries its own limits, whoever reads it when."""
    slow = trickles(head(), chunk(event("wait(); ")), pause_s=0.02)
    with serving(slow) as server, planner_at(server.url) as planner:
        unhurried, hasty = (planner.stream(prompt_of(), Deadline(ms)) for ms in (5000, 150))
        assert next(unhurried, None) == next(hasty, None) == "wait(); "
        assert len(list(hasty)) < 20
        assert next(unhurried, None) == "wait(); "
        del unhurried
