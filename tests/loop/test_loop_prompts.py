"""What planners read in the shipped worlds, letter by letter: the shipped weights were trained on it.

Each file holds the last prompt of the first calls of an episode, and so the whole context up to there, a
refused plan included. `python tests/loop/test_loop_prompts.py` writes them anew: only for a new version of a
world.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brace.bench.episodes import EpisodeRunner, Task
from brace.ledger.writer import LedgerWriter
from brace.loop.config import load_config
from brace.planners.base import Limits, Prompt
from brace.planners.reference import ReaderPlanner
from brace.registry import planners
from brace.worlds.proxy.planner import ProxyPlanner

FOLDER = Path(__file__).parent / "prompts"
CALLS, STEPS = 6, 160
REFUSED = {
    "babyai-v1": "0: unlock(room 1, room 9)",
    "drones-v1": "0: goto(gate 99)",
    "lift-v1": "0: reach(9999, 0, 0, 0)",
    "handover-v1": "0: reach(9999, 0, 0, 0)",
    "peg-v1": "0: align(9999, 0, 0, 0)",
}
SEEN: list[str] = []


class Slips(ReaderPlanner):
    """The perfect reader, but its second plan is one that the world refuses."""

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[Any]:
        SEEN.append(prompt.text)
        if len(SEEN) == 2:
            yield REFUSED[self._world.id]
        else:
            yield from super().stream(prompt, limits)


class SeenProxy(ProxyPlanner):
    """The proxy's own, heard by the test."""

    def stream(self, prompt: Prompt, limits: Limits) -> Iterator[Any]:
        SEEN.append(prompt.text)
        yield from super().stream(prompt, limits)


def last_prompt(name: str) -> str:
    planners.register("slips")(Slips)
    planners.register("seen-proxy")(SeenProxy)
    proxy = name.startswith("proxy")
    config = load_config(
        {
            "world": name, "planner": "seen-proxy" if proxy else "slips", "episodes": 1, "seed": 41,
            "controller": {"divergence_limit": 0.5, "cooldown": 3} | {"period": 10 if proxy else 50},
            "modes": {"full": {"template": "proxy-full"} if proxy else {}}, "budget": {"mode": "full"},
            "loop": {
                "clock": "modelled", "model": {"fixed_ms": 200, "per_token_ms": 0},
                "while_thinking": "continue",
            },
        }
    )  # fmt: skip
    SEEN.clear()
    runner = EpisodeRunner(config)
    runner._world.max_steps = STEPS
    with tempfile.TemporaryDirectory() as folder, LedgerWriter(Path(folder)) as ledger:
        result = runner.run(Task(Path(folder), 0, 41, 0), ledger)
    runner.close()
    assert not result.record.error
    return SEEN[min(CALLS, len(SEEN)) - 1]


@pytest.mark.parametrize("name", [*REFUSED, "proxy-v1", "proxy-v2"])
def test_prompts_of_the_shipped_worlds_stay_as_they_were(name: str) -> None:
    text = last_prompt(name)
    # The proxy's planner reads in the prompt what its authors' was told beside it.
    text = text.replace("Write the full plan", "Write the next plan")
    assert text == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    if name in REFUSED:
        assert "plan refused: " in text
        assert "\n[plan " in text


if __name__ == "__main__":
    for world in [*REFUSED, "proxy-v1", "proxy-v2"]:
        (FOLDER / f"{world}.txt").write_text(last_prompt(world), encoding="utf-8")
