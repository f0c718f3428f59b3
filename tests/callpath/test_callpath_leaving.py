"""At the end of a program the planner's threads stop first; one that never stops cannot hold it."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

PROGRAM = """
import time
from brace import Agent
from brace.planners import Planner

class Slow(Planner):
    name = "slow"
    from brace.context import WordTokenizer
    tokenizer = WordTokenizer()

    def stream(self, prompt, limits):
        while {condition}:
            time.sleep(0.01)
        print("stopped", flush=True)
        yield ""

agent = Agent(Slow(), slo_ms=None)
agent.step(["a door"])
while not agent.thinking:
    time.sleep(0.01)
time.sleep(0.1)
"""


@pytest.mark.parametrize(
    ("condition", "said"), [("not limits.expired()", "stopped\n"), ("True", "")], ids=["stops", "hangs"]
)
def test_a_program_ends_while_its_planner_thinks(condition: str, said: str) -> None:
    begun = time.monotonic()
    program = PROGRAM.format(condition=condition)
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, said), done.stderr
    assert time.monotonic() - begun < 30
