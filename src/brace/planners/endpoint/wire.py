"""HTTP whose every wait ends with the call: name look-up, connection, handshake, sending, headers, stream.

The usual timeouts of HTTP libraries (httpx, and the `openai` client on top of it) hold for one read each: a
server that sends a byte now and then is never late, and a call cancelled by another thread is not noticed
before the next byte. So this is httpcore2, the layer below httpx2, with a network backend of our own. It
brings the pool of kept-alive connections and the protocol; the waiting is done here, in slices.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import httpcore2

from brace.planners.base import Limits
from brace.planners.endpoint import EndpointError, PassingError, TimeIsUpError

T = TypeVar("T")

CONNECT_S = 10.0
"""The longest a connection may take where the call itself may take for ever."""
KEEP_ALIVE_S = 60.0
"""Idle connections older than this are closed: something on the way may have forgotten them."""
SLICE_S = 0.02
"""The longest wait between two looks at the limits: how late a cancellation may be seen."""


def _slice(limits: Limits) -> float:
    if limits.expired():
        raise TimeIsUpError
    # Never 0, which would mean "do not wait at all" to a socket.
    return max(1e-4, min(SLICE_S, limits.remaining_s()))


@dataclass(frozen=True, slots=True)
class Reply:
    """The head of a server's answer, and its body as it comes."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    chunks: Iterator[bytes]

    def finish(self) -> None:
        """Wait for the body's end, so that the connection can be used again; it need not come."""
        with suppress(TimeIsUpError, httpcore2.NetworkError, httpcore2.RemoteProtocolError):
            for _ in self.chunks:
                pass


class Wire:
    """Posts to one server and keeps the connection for the next call. Any number of threads may use it."""

    def __init__(self, *, secure: bool) -> None:
        self._pool = httpcore2.ConnectionPool(
            # Made once, here: reading the certificates takes longer than some calls have.
            ssl_context=httpcore2.default_ssl_context() if secure else None,
            # A limit would mean waiting for a free connection, and that wait would not end with the call.
            max_connections=None,
            keepalive_expiry=KEEP_ALIVE_S,
            network_backend=_Backend(),
        )

    @contextmanager
    def post(self, url: str, body: bytes, headers: Mapping[str, str], limits: Limits) -> Iterator[Reply]:
        """Send, wait for the head, hand over the body; leaving before its end closes the connection.

        Raises TimeIsUpError when the limits end, PassingError when the connection was lost, and EndpointError
        when there is none.
        """
        until = _Until(limits)
        try:
            with self._pool.stream(
                "POST",
                url,
                headers=[("Content-Type", "application/json"), *headers.items()],
                content=body,
                extensions={"timeout": {"connect": until, "read": until, "write": until}},
            ) as response:
                named = {
                    name.decode("latin-1").lower(): value.decode("latin-1")
                    for name, value in response.headers
                }
                yield Reply(response.status, named, response.iter_stream())
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
            # First, because a ConnectError is a NetworkError too: an absent server is not tried again.
            raise EndpointError(f"cannot reach {url}: {_reason(error)}; is the server running?") from error
        except (httpcore2.NetworkError, httpcore2.RemoteProtocolError) as error:
            raise PassingError(f"lost the connection to {url}: {_reason(error)}") from error

    def pause(self, seconds: float, limits: Limits) -> None:
        """Leave the server alone for a while; TimeIsUpError as soon as nobody waits any more."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            time.sleep(min(left, _slice(limits)))

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()


def _reason(error: Exception) -> str:
    """What the system said, without the library's wrapping."""
    return str(error.__cause__ or error) or type(error).__name__


class _Until(float):
    """A call's limits in the shape of a timeout: httpcore2 hands a request's timeouts down as they are."""

    limits: Limits

    def __new__(cls, limits: Limits) -> _Until:
        seconds = super().__new__(cls, limits.remaining_s())
        seconds.limits = limits
        return seconds


def _limits(timeout: float | None) -> Limits:
    if not isinstance(timeout, _Until):
        raise TypeError(f"a request without limits: timeout {timeout!r}")
    return timeout.limits


def _left_behind(work: Callable[[float], httpcore2.NetworkStream], timeout: float | None) -> _Stream:
    """Do what cannot be interrupted in a thread that can be left; what it brings too late is closed."""
    limits = _limits(timeout)
    future: Future[httpcore2.NetworkStream] = Future()
    seconds = min(limits.remaining_s(), CONNECT_S)

    def run() -> None:
        try:
            future.set_result(work(seconds))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            future.set_exception(error)

    def close_late(future: Future[httpcore2.NetworkStream]) -> None:
        if future.exception() is None:
            future.result().close()

    # A daemon: a name look-up that hangs must not keep the program from ending.
    threading.Thread(target=run, daemon=True, name="connecting").start()
    try:
        while not future.done():
            wait([future], _slice(limits))
    except TimeIsUpError:
        future.add_done_callback(close_late)
        raise
    return _Stream(future.result())


class _Backend(httpcore2.NetworkBackend):
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        def connect(seconds: float) -> httpcore2.NetworkStream:
            options = socket_options or []
            return httpcore2.SyncBackend().connect_tcp(host, port, seconds, local_address, options)

        return _left_behind(connect, timeout)


class _Stream(httpcore2.NetworkStream):
    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner
        self._socket: socket.socket = inner.get_extra_info("socket")
        # Closed under a reader in another thread, the socket's number could be a file's when it reads on.
        self._in_use = threading.Lock()

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._in_slices(timeout, lambda: self._socket.recv(max_bytes), httpcore2.ReadError)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        left = memoryview(buffer)
        while left:
            sent = self._in_slices(timeout, partial(self._socket.send, left), httpcore2.WriteError)
            left = left[sent:]

    def _in_slices(self, timeout: float | None, transfer: Callable[[], T], failure: type[Exception]) -> T:
        """Wait until the socket takes or gives something, looking at the limits now and then."""
        limits = _limits(timeout)
        while True:
            seconds = _slice(limits)
            try:
                with self._in_use:
                    self._socket.settimeout(seconds)
                    return transfer()
            except TimeoutError:
                continue
            except OSError as error:
                raise failure(str(error)) from error

    def close(self) -> None:
        with self._in_use:
            self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        return _left_behind(partial(self._inner.start_tls, ssl_context, server_hostname), timeout)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
