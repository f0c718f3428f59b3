"""Every world on a real simulator: the contract, the references, replays, missing simulators."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from brace.bench.runner import prepare_run, run_tasks
from brace.ledger.records import Call, Episode, Step
from brace.ledger.scan import read_records
from brace.loop.config import RunConfig, load_config
from brace.registry import worlds
from brace.worlds.conformance import check_world

REAL = [name for name in worlds.names() if worlds.get(name).info.real]
EVERY = pytest.mark.parametrize("name", REAL)


def configured(name: str, **settings: Any) -> RunConfig:
    plain = {
        "world": {"name": name, "options": {"disturbance": "none"}}, "planner": "reader",
        "episodes": 1, "seed": 3,
        "controller": {"divergence_limit": 0.5}, "modes": {"full": {}}, "budget": {"mode": "full"},
        "loop": {"clock": "modelled", "model": {"fixed_ms": 0, "per_token_ms": 0}},
    }  # fmt: skip
    return load_config(plain | settings)


def play(config: RunConfig, folder: Path) -> list[Any]:
    run_tasks(prepare_run(config, folder, resume=False))
    return [record for record in read_records(folder) if isinstance(record, Step | Call | Episode)]


@EVERY
def test_the_contract_is_kept(name: str) -> None:
    broken = [check for check in check_world(lambda: worlds.create(name), steps=25) if check.passed is False]
    assert not broken


@EVERY
@pytest.mark.parametrize("planner", ["truth", "reader"])
def test_the_references_succeed_without_disturbance(name: str, planner: str, tmp_path: Path) -> None:
    records = play(configured(name, planner=planner), tmp_path / "run")
    assert isinstance(records[-1], Episode)
    assert records[-1].success, records[-1]


@EVERY
def test_the_same_seed_and_replayed_latencies_give_the_same_trajectory(name: str, tmp_path: Path) -> None:
    slow = {"clock": "modelled", "model": {"fixed_ms": 700, "per_token_ms": 0}, "while_thinking": "continue"}
    disturbed = {"name": name, "options": {"disturbance": "normal"}}
    first = play(configured(name, world=disturbed, loop=slow), tmp_path / "first")
    replayed = {"clock": "replay", "recording": str(tmp_path / "first"), "while_thinking": "continue"}
    second = play(configured(name, world=disturbed, loop=replayed), tmp_path / "second")
    assert [r for r in first if isinstance(r, Step)] == [r for r in second if isinstance(r, Step)]
    assert first[-1] == second[-1]
    plans = [
        [(r.t, r.t_end, r.status, r.plan) for r in run if isinstance(r, Call)] for run in (first, second)
    ]
    assert plans[0] == plans[1]
    assert plans[0]


@EVERY
def test_a_missing_simulator_names_its_extra(name: str) -> None:
    info = worlds.get(name).info
    script = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({info.modules!r}))\n"
        "from brace.registry import worlds\n"
        "from brace.errors import MissingExtraError\n"
        f"try: worlds.create({name!r})\n"
        "except MissingExtraError as error: print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert f"pip install 'brace-replan[{info.extra}]'" in told


@EVERY
@pytest.mark.parametrize("option", [{"disturbance": "sometimes"}, {"difficulty": "brutal"}])
def test_a_wrong_setting_says_what_is_known(name: str, option: dict[str, str]) -> None:
    from brace.errors import ConfigError

    with pytest.raises(ConfigError, match=r"known|none|easy"):
        worlds.create(name, option)
