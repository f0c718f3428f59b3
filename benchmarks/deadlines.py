"""How late after a deadline does the control loop have control again? Real planners, cut off at all stages.

    python benchmarks/deadlines.py embedded smollm2
    python benchmarks/deadlines.py openai --endpoint http://127.0.0.1:8080/v1 --model any

Each call reads about 14 tokens for each of --lines and is given 20 to 800 ms: most are cut off while they
read or write. Calls that were answered, or failed, in time do not count.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from brace import Agent, Arg, ControllerConfig, Skill, SkillSet
from brace.registry import planners

SKILLS = SkillSet(
    [Skill("goto", (Arg("room", "name"),)), Skill("pickup", (Arg("object", "name"), Arg("room", "name")))],
    agents=4,
)
DEADLINES_MS = (20, 50, 100, 200, 400, 800)


def options_of(kind: str, given: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    if kind == "openai":
        return "openai", {"base_url": given.endpoint, "model": given.model}
    if kind == "smollm2":
        return "transformers", {"model": "smollm2", "reuse": False}
    return "embedded", {"reuse": False}


def lateness_ms(planner: Any, calls: int, lines: int) -> list[float]:
    """For each call that was cut off."""
    news = [f"room {n % 9 + 1}: red ball, blue key, grey box" for n in range(lines)]
    late = []
    for deadline in DEADLINES_MS:
        agent = Agent(
            planner, skills=SKILLS, slo_ms=deadline, while_thinking="hold",
            controller=ControllerConfig(cooldown=0, commit=0),
        )  # fmt: skip
        agent.step(news)
        for _ in range(calls):
            begun = time.perf_counter()
            step = agent.step(["nothing new"], failed=True)
            spent = 1000 * (time.perf_counter() - begun)
            if not step.arrived and step.decision.replan and spent >= deadline:
                late.append(spent - deadline)
        agent.close()
    return late


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="+", choices=("embedded", "smollm2", "openai"))
    parser.add_argument("--calls", type=int, default=30, help="at each deadline")
    parser.add_argument("--lines", type=int, default=220, help="of context")
    parser.add_argument("--endpoint", default="http://127.0.0.1:8080/v1")
    parser.add_argument("--model", default="any")
    given = parser.parse_args()
    for kind in given.kinds:
        name, options = options_of(kind, given)
        late = lateness_ms(planners.create(name, options), given.calls, given.lines)
        if not late:
            print(f"{kind}: every call was answered in time")
            continue
        p50, p95, p99 = np.percentile(late, (50, 95, 99))
        print(
            f"{kind}: {len(late)} calls cut off; late by {p50:.1f} ms (median), {p95:.1f} (P95), "
            f"{p99:.1f} (P99), {max(late):.1f} (most)",
            flush=True,
        )


if __name__ == "__main__":
    main()
