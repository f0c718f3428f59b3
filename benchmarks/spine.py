"""What the spine itself costs, measured on this machine: `make bench`, or `python benchmarks/spine.py`.

Each figure stands beside its target. Steps and calls go through the real controller, call path and ledger;
the planner answers at once, so that what is left is ours.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from brace.callpath import CallPath, Fit, Mode
from brace.callpath.compress import Recency
from brace.context import ContextBuffer, Segment, WordTokenizer, plan_template
from brace.controller import Budget, Controller, ControllerConfig, FixedPolicy, Signals
from brace.ledger.manifest import describe_run, write_manifest
from brace.ledger.metrics import summarise
from brace.ledger.reader import load_run
from brace.ledger.records import Episode
from brace.ledger.writer import LedgerWriter
from brace.loop.config import LoopConfig
from brace.loop.core import LoopCore
from brace.plan import Plan
from brace.planners import FunctionPlanner, PlannerPool
from brace.worlds.base import PlanHolder

Row = tuple[str, float, str, float | None]


class Holder(PlanHolder):
    """Takes every plan."""

    def __init__(self) -> None:
        self.plan = Plan()

    def apply(self, plan: Plan) -> str | None:
        self.plan = plan
        return None

    def rest(self) -> Plan:
        return self.plan

    def stop(self) -> None:
        self.plan = Plan()

    def line_for(self, plan: Plan, before: Plan) -> str:
        # The context must stay as long as it is, or every call would be measured with another one.
        return ""


def make_core(writer: LedgerWriter) -> LoopCore[object]:
    mode = Mode(plan_template(), (Fit(Recency()),))
    path = CallPath(PlannerPool(FunctionPlanner(lambda prompt: "goto(a); grasp(b)")), {"pruned": mode})
    rules = Controller(
        ControllerConfig(cooldown=3, commit=2, window=5),
        FixedPolicy({"pruned": Budget("pruned", 512, 1000.0)}),
    )
    return LoopCore(rules, path, writer, LoopConfig())  # type: ignore[arg-type]


def measure_steps(writer: LedgerWriter, steps: int) -> list[Row]:
    """Idle steps with progress reported: sense nothing, decide, write the record."""
    core = make_core(writer)
    times = np.ones(steps)  # all of it touched now, so that only the spine can grow the memory later
    memory = []
    for number in range(steps):
        start = time.perf_counter()
        core.sense(())
        core.decide(Signals(progress=0.01, succeeded=True))
        times[number] = time.perf_counter() - start
        if number in (steps // 10, steps - 1):
            memory.append(rss_mib())
    return [
        ("step without a call, median", float(np.median(times)) * 1e6, "µs", 50.0),
        ("step without a call, P99", float(np.quantile(times, 0.99)) * 1e6, "µs", None),
        (f"memory grown from step {steps // 10:,} to {steps:,}", memory[1] - memory[0], "MiB", 1.0),
    ]


def measure_calls(writer: LedgerWriter, calls: int) -> list[Row]:
    """Whole calls with a context of 2,000 tokens cut to 512, less compression and the planner itself."""
    core = make_core(writer)
    holder = Holder()
    core.sense([Segment("observation", f"line {i} says the ball is at place {i % 7}", i) for i in range(150)])
    ours, modules = [], []
    for _ in range(calls):
        start = time.perf_counter()
        core.sense(())
        # An exhausted plan every ten steps keeps the gate open.
        for _ in range(9):
            core.decide(Signals())
        idle = time.perf_counter()
        decision = core.decide(Signals(exhausted=True))
        call = core.open_call(decision)
        core.path.run(call)
        core.settle(call, holder, "measured", still_ms=0.0)
        total = time.perf_counter() - idle
        names = ("context_compress", "replan.prefill", "replan.decode")
        spent = sum(phase.ms for phase in call.clock.phases if phase.name in names) / 1e3
        ours.append(total - spent)
        modules.append(spent)
        assert idle >= start
    return [
        ("call beyond its modules, median", statistics.median(ours) * 1e3, "ms", 1.0),
        ("call beyond its modules, P99", statistics.quantiles(ours, n=100)[98] * 1e3, "ms", None),
        ("(compression of 2,000 tokens to 512, median)", statistics.median(modules) * 1e3, "ms", None),
    ]


def measure_reading(directory: Path, records: int) -> list[Row]:
    start = time.perf_counter()
    run = load_run(directory)
    loaded = time.perf_counter()
    summarise(run)
    done = time.perf_counter()
    size = sum(path.stat().st_size for path in directory.glob("*.jsonl")) / 2**20
    return [
        (f"ledger of {records:,} records ({size:.0f} MiB) into metrics", done - start, "s", 5.0),
        ("(of this, reading)", loaded - start, "s", None),
    ]


def measure_appending() -> list[Row]:
    def median_append(buffer: ContextBuffer) -> float:
        times = []
        for number in range(500):
            segment = Segment("observation", f"agent sees the red ball near door {number}", number, agent=1)
            start = time.perf_counter()
            buffer.append(segment)
            times.append(time.perf_counter() - start)
        return statistics.median(times) * 1e3

    empty, full = ContextBuffer(WordTokenizer()), ContextBuffer(WordTokenizer())
    while full.tokens < 100_000:
        full.append(
            Segment("observation", "agent sees the red ball near door and the blue key on the floor", 0)
        )
    small, large = median_append(empty), median_append(full)
    return [
        ("append to a 100k-token context, median", large, "ms", 1.0),
        ("(ratio to appending to an empty one)", large / small, "x", None),
    ]


def rss_mib() -> float:
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--calls", type=int, default=2_000)
    options = parser.parse_args()
    rows = measure_appending()
    with tempfile.TemporaryDirectory() as folder:
        long = Path(folder) / "long"
        write_manifest(long, describe_run("bench", {}, (1,)))
        with LedgerWriter(long) as writer:
            rows += measure_steps(writer, options.steps)
            writer.write(Episode(episode=0, seed=1, world="none", success=True, steps=options.steps))
        with LedgerWriter(Path(folder) / "calls") as writer:
            rows += measure_calls(writer, options.calls)
        rows += measure_reading(long, options.steps)
    table = Table("figure", "measured", "target", title="The spine's own cost", caption=describe_host())
    for name, value, unit, target in rows:
        shown = "" if target is None else f"≤ {target:g} {unit} {'ok' if value <= target else 'MISSED'}"
        table.add_row(name, f"{value:.3g} {unit}", shown)
    Console().print(table)


def describe_host() -> str:
    manifest = describe_run("bench", {}, ())
    return f"{manifest.host['cpu']}, {manifest.host['cores']} cores, Python {manifest.versions['python']}"


if __name__ == "__main__":
    main()
