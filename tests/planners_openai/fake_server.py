"""A fake OpenAI-compatible server that can be told how to misbehave, and short ways to ask a planner."""

from __future__ import annotations

import functools
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ParamSpec

from brace.callpath import Answer, CallPath, Deadline, Mode, PlannerPool
from brace.callpath.compress import NoCompression
from brace.context import plan_template
from brace.controller import Budget, Controller, ControllerConfig, FixedPolicy
from brace.ledger.records import Call, Record
from brace.loop.clocks import WallClock
from brace.loop.config import LoopConfig
from brace.loop.core import LoopCore
from brace.loop.episode import EpisodeLoop
from brace.planners import Prompt
from brace.planners.openai import OpenAIPlanner
from fake_world import SKILLS, FakeLine

PLAN = ("goto(", "5", ")")
USAGE = {"prompt_tokens": 12, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
KEY = "sk-fake-0123456789abcdef"
TRIES = 5

P = ParamSpec("P")


@dataclass
class Request:
    """What a client sent: which connection, and the how manieth request of all."""

    connection: int
    number: int
    path: str
    headers: dict[str, str]
    body: Any


Behaviour = Callable[[socket.socket, Request], None]


@dataclass
class FakeServer:
    """Does to each request what `behave` says; `then`, if given, is for all but the first."""

    behave: Behaviour
    then: Behaviour | None = None
    context: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    hung_up: list[float] = field(default_factory=list)
    """When the client closed a connection that this server would have kept."""

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        scheme = "https" if self.context else "http"
        return f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections += 1
                threading.Thread(
                    target=self._serve, args=(connection, self._connections), daemon=True
                ).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open.add(connection)
        with suppress(OSError):
            if self.context:
                connection = self.context.wrap_socket(connection, server_side=True)
            while (request := self._read(connection, number)) is not None:
                behave = self.behave if request.number == 1 or self.then is None else self.then
                behave(connection, request)
        self.hung_up.append(time.perf_counter())
        self._open.discard(connection)
        connection.close()

    def _read(self, connection: socket.socket, number: int) -> Request | None:
        data = b""
        while b"\r\n\r\n" not in data:
            if not (more := connection.recv(65536)):
                return None
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        while len(body) < int(headers["content-length"]):
            body += connection.recv(65536)
        request = Request(number, len(self.requests) + 1, first.split()[1], headers, json.loads(body))
        self.requests.append(request)
        return request


@contextmanager
def serving(
    behave: Behaviour, then: Behaviour | None = None, context: ssl.SSLContext | None = None
) -> Iterator[FakeServer]:
    server = FakeServer(behave, then, context)
    try:
        yield server
    finally:
        server.close()


# What servers do ----------------------------------------------------------------------------------------


def event(text: str | None, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": {} if text is None else {"content": text}, "finish_reason": finish}
    return data(json.dumps({"choices": [choice], **more}))


def data(line: str) -> bytes:
    return f"data: {line}\n\n".encode()


def usage(**counts: Any) -> bytes:
    return data(json.dumps({"choices": [], "usage": counts}))


DONE = data("[DONE]")


def chunk(payload: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(payload), payload)


def head(status: str = "200 OK", kind: str = "text/event-stream", **more: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Transfer-Encoding: chunked"]
    return "\r\n".join([*lines, *(f"{k.replace('_', '-')}: {v}" for k, v in more.items()), "", ""]).encode()


def streams(*payloads: bytes) -> Behaviour:
    """The events, one after another, and a proper end."""

    def behave(connection: socket.socket, request: Request) -> None:
        connection.sendall(head() + b"".join(map(chunk, payloads)) + chunk(b""))

    return behave


def answers(
    *pieces: str, finish: str = "stop", usage_of: dict[str, Any] | None = USAGE, more: tuple[bytes, ...] = ()
) -> Behaviour:
    """As a good server does."""
    tail = [usage(**usage_of)] if usage_of else []
    return streams(*map(event, pieces or PLAN), event(None, finish), *more, *tail, DONE)


def refuses(status: str, body: str, kind: str = "application/json", **more: str) -> Behaviour:
    def behave(connection: socket.socket, request: Request) -> None:
        connection.sendall(head(status, kind, **more) + chunk(body.encode()) + chunk(b""))

    return behave


def sends_then_waits(*parts: bytes) -> Behaviour:
    """Says this much, and then nothing until the client hangs up."""

    def behave(connection: socket.socket, request: Request) -> None:
        for part in parts:
            connection.sendall(part)
        while connection.recv(65536):
            pass

    return behave


def trickles(first: bytes, every: bytes, pause_s: float = 0.005) -> Behaviour:
    """Says a little, again and again: no single read is ever late."""

    def behave(connection: socket.socket, request: Request) -> None:
        connection.sendall(first)
        while True:
            connection.sendall(every)
            time.sleep(pause_s)

    return behave


def resets(*parts: bytes) -> Behaviour:
    """Says this much and resets the connection."""

    def behave(connection: socket.socket, request: Request) -> None:
        for part in parts:
            connection.sendall(part)
            time.sleep(0.02)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    return behave


def sends_and_closes(*parts: bytes) -> Behaviour:
    def behave(connection: socket.socket, request: Request) -> None:
        for part in parts:
            connection.sendall(part)
        connection.shutdown(socket.SHUT_RDWR)

    return behave


def endless(connection: socket.socket, request: Request) -> None:
    connection.sendall(head())
    while True:
        connection.sendall(chunk(event("goto(5); ")) * 50)


def endless_reasoning(connection: socket.socket, request: Request) -> None:
    thought = data(json.dumps({"choices": [{"delta": {"reasoning_content": "Hmm. "}}]}))
    connection.sendall(head())
    while True:
        connection.sendall(chunk(thought) * 50)


def endless_line(connection: socket.socket, request: Request) -> None:
    connection.sendall(head() + chunk(b"data: "))
    while True:
        connection.sendall(chunk(b"x" * 4096))


# How tests ask --------------------------------------------------------------------------------------------


def patient(test: Callable[P, None]) -> Callable[P, None]:
    """For tests that look at the time: a busy machine may stall any thread, but not five times in a row."""

    @functools.wraps(test)
    def again(*args: P.args, **kwargs: P.kwargs) -> None:
        for tries_left in reversed(range(TRIES)):
            try:
                return test(*args, **kwargs)
            except AssertionError:
                if not tries_left:
                    raise
        return None

    return again


def prompt_of(text: str = "reach 5\nPlan:\n", tokens: int = 12) -> Prompt:
    return Prompt(text, tokens)


@contextmanager
def planner_at(url: str, **options: Any) -> Iterator[OpenAIPlanner]:
    planner = OpenAIPlanner(**{"base_url": url, "model": "fake", "max_tokens": 64, **options})
    try:
        yield planner
    finally:
        planner.close()


@contextmanager
def pool_at(url: str, **options: Any) -> Iterator[PlannerPool]:
    with planner_at(url, **options) as planner:
        pool = PlannerPool(planner)
        try:
            yield pool
        finally:
            pool.close()


def ask(pool: PlannerPool, ms: float | None = 5000, prompt: Prompt | None = None) -> tuple[Answer, float]:
    """The answer, and how long after the deadline it came (ms; negative: before)."""
    with Deadline(ms) as deadline:
        answer = pool.ask(prompt or prompt_of(), deadline)
    return answer, deadline.elapsed_ms() - deadline.limit_ms


class Ledger:
    def __init__(self) -> None:
        self.records: list[Record] = []

    def write(self, record: Record) -> None:
        self.records.append(record)


def play(
    url: str, slo_ms: float, dt: float = 0.05, max_steps: int = 40, **options: Any
) -> tuple[bool, list[Call], int]:
    """An episode on the fake line, with real waiting: did it succeed, by which calls, and how many hung?"""
    world = FakeLine(goal=5, max_steps=max_steps, dt=dt)
    with pool_at(url, **options) as pool:
        pool.planner.bind(world)  # type: ignore[attr-defined]
        mode = Mode(NoCompression(), plan_template(SKILLS.describe()))
        path = CallPath(pool, {"full": mode}, SKILLS)
        policy = FixedPolicy({"full": Budget("full", None, slo_ms)}, mode="full")
        ledger = Ledger()
        rules = Controller(ControllerConfig(cooldown=2), policy)
        core: LoopCore[Any] = LoopCore(rules, path, ledger, LoopConfig())
        episode = EpisodeLoop(core, world, WallClock(), hold=True).run(0, seed=1)
        return episode.success, [record for record in ledger.records if isinstance(record, Call)], pool._hung
