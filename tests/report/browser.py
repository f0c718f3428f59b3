"""A browser without a window, driven over a pair of pipes: Chromium's own protocol needs no library.

Messages are JSON, each ended by a zero byte: https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic",
    "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-pipe",
)  # fmt: skip
_PATIENCE = 60.0
# Chromium reads its commands from file 3 and answers on file 4.
_LAUNCH = (
    "import os, sys; [os.dup2(int(sys.argv[n]), n + 2) for n in (1, 2)]; os.execv(sys.argv[3], sys.argv[3:])"
)


def find_browser() -> str | None:
    """The browser that BRACE_CHROMIUM names, or the first that is on the path."""
    if named := os.environ.get("BRACE_CHROMIUM"):
        assert shutil.which(named), f"BRACE_CHROMIUM names no program: {named}"
        return named
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


class Tab:
    """One page in the browser, and what it complained about or asked for."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._count, self._rest = 0, b""
        self._session: str | None = None
        self._loaded = False
        self.width = 0
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def open(self, url: str, width: int, height: int = 800) -> None:
        """Load a page in a window of this size."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
            mobile=width < 600,
        )  # fmt: skip
        self._loaded, self.width = False, width
        self.send("Page.navigate", url=url)
        while not self._loaded:
            self._receive()

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command and its answer."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        give_up = time.monotonic() + _PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, give_up - time.monotonic()))
            assert ready, "the browser does not answer"
            read = os.read(self._answers, 1 << 16)
            assert read, "the browser is gone"
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, facts: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.complaints.append(json.dumps(facts))
        elif event == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])


@contextmanager
def browser(program: str, profile: Path) -> Iterator[Tab]:
    """A fresh browser with one tab; it is ended with the block."""
    # High numbers, so that neither end is in the way of 3 and 4.
    (to_read, to_write), (from_read, from_write) = (tuple(_above(end) for end in os.pipe()) for _ in range(2))
    command = [program, *_FLAGS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        [sys.executable, "-c", _LAUNCH, str(to_read), str(from_write), *command],
        pass_fds=(to_read, from_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(to_read)
    os.close(from_write)
    try:
        tab = Tab(to_write, from_read)
        yield tab
        tab._session = None
        tab.send("Browser.close")
    finally:
        os.close(to_write)
        os.close(from_read)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _above(number: int) -> int:
    high = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(number)
    return high
