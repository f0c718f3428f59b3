"""Many runs in one sitting: each has its parts for as long as it is worked on, and no longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from brace.bench.runner import prepare_run, run_tasks
from brace.ledger.reader import load_run
from brace.loop.config import load_config
from brace.worlds.proxy.world import ProxyV2


def test_never_are_two_worlds_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ProxyV2] = []
    closed: list[ProxyV2] = []
    make, close = ProxyV2.__init__, ProxyV2.close

    def watched_make(self: ProxyV2) -> None:
        assert len(made) == len(closed)
        made.append(self)
        make(self)

    def watched_close(self: ProxyV2) -> None:
        closed.append(self)
        close(self)

    monkeypatch.setattr(ProxyV2, "__init__", watched_make)
    monkeypatch.setattr(ProxyV2, "close", watched_close)
    configs = [
        load_config({"world": "proxy-v2", "planner": "proxy-symbolic", "episodes": 2}) for _ in range(3)
    ]
    tasks = [
        task
        for number, config in enumerate(configs)
        for task in prepare_run(config, tmp_path / str(number), resume=False)
    ]
    run_tasks(tasks)
    assert made == closed
    assert len(made) == 3
    assert [len(load_run(tmp_path / str(number)).episodes) for number in range(3)] == [2, 2, 2]
