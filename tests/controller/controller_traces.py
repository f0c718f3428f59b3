"""Random worlds for the controller, and a loop that drives it as an agent would (no test in here)."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, replace
from typing import NamedTuple

from hypothesis import strategies as st

from brace.controller import (
    TRIGGERS,
    Budget,
    CallOutcome,
    Controller,
    ControllerConfig,
    ControllerState,
    Decision,
    FixedPolicy,
    Signals,
    decide,
)

OVERRIDES = ("hazard", "deadlock", "failures")
POLICY = FixedPolicy({"pruned": Budget("pruned", 512, 800.0), "full": Budget("full", 2048, 2000.0)})
LIVELY = ControllerConfig(cooldown=5, commit=7, period=4, divergence_limit=1.0, clean_window=3)
UNBOUNDED = FixedPolicy({"pruned": Budget("pruned", None, None)})


class Fate(NamedTuple):
    """What becomes of a call if one is started at this step."""

    lasts: int
    """Steps until it ends."""
    changed: bool
    told_at_once: bool
    """Whether the step in which it ends is told already, or the one after."""


Trace = list[tuple[Signals, Fate]]


@dataclass(frozen=True)
class Step:
    """What was handed to the controller at a step, and what it said."""

    signals: Signals
    decision: Decision
    state: ControllerState
    """After the step."""


@dataclass(frozen=True)
class Change:
    """A plan change: when, and by the call of which step."""

    t: int
    called: int


@dataclass(frozen=True)
class Run:
    """A driven trace."""

    steps: list[Step]
    changes: list[Change]

    @property
    def decisions(self) -> list[Decision]:
        return [step.decision for step in self.steps]

    @property
    def calls(self) -> list[int]:
        return [decision.t for decision in self.decisions if decision.replan]


def drive(config: ControllerConfig, trace: Trace, policy: FixedPolicy = POLICY) -> Run:
    """At most one call in flight, its outcome told once it has ended; a cancelled one changes nothing."""
    controller = Controller(config, policy)
    state = controller.start()
    steps: list[Step] = []
    changes: list[Change] = []
    running: tuple[int, Fate] | None = None
    cancelled: CallOutcome | None = None
    for t, (world, fate) in enumerate(trace):
        outcome, cancelled = cancelled, None
        if running is not None:
            called, its = running
            ended = called + its.lasts
            told = max(ended, called + 1) if its.told_at_once else ended + 1
            if t == told:
                outcome, running = CallOutcome(ended, its.changed, latency_ms=10.0 * its.lasts), None
                if its.changed:
                    changes.append(Change(ended, called))
        signals = replace(world, in_flight=running is not None, outcome=outcome)
        decision, state = decide(controller, state, signals, t)
        steps.append(Step(signals, decision, state))
        if decision.replan:
            if running is not None:
                cancelled = CallOutcome(t, latency_ms=10.0)
            running = (t, fate)
    return Run(steps, changes)


def random_trace(seed: int, steps: int) -> Trace:
    """Quiet for some seeds, trouble for others; the same for a seed in every process."""
    draw = random.Random(seed)
    rates = [draw.random() ** 2 for _ in range(8)]
    quiet, longest = draw.random(), draw.choice([1, 4, 12])

    def world() -> Signals:
        if draw.random() < quiet:
            return Signals(progress=draw.choice([None, 0.5]))
        failed, succeeded, deadlock, diverged, critical, warned, goal, exhausted = (
            draw.random() < rate for rate in rates
        )
        return Signals(
            failed=failed,
            succeeded=succeeded,
            progress=draw.choice([None, 0.0, 0.0, -1.0, 0.5]),
            deadlock=deadlock,
            divergence=2.0 if diverged else 0.5,
            hazard="critical" if critical else "warning" if warned else None,
            goal_changed=goal,
            exhausted=exhausted,
        )

    return [
        (world(), Fate(draw.randrange(longest), draw.random() < 0.7, draw.random() < 0.5))
        for _ in range(steps)
    ]


# Long traces from a seed reach far deeper than lists of drawn signals, whose mean length is four.
traces = st.builds(random_trace, st.integers(0, 2**32), st.sampled_from([6, 12, 30, 60, 120]))


@st.composite
def configs(draw: st.DrawFn, overrides: bool) -> ControllerConfig:
    window = draw(st.integers(1, 6))
    return ControllerConfig(
        cooldown=draw(st.integers(0, 8)),
        commit=draw(st.integers(0, 8)),
        triggers=draw(st.permutations(TRIGGERS)) if draw(st.booleans()) else TRIGGERS,
        period=draw(st.none() | st.integers(1, 6)),
        failure_repeat=(repeat := draw(st.integers(1, 3))),
        divergence_limit=draw(st.sampled_from([0.0, 1.0, float("inf")])),
        window=window,
        deadlock_evidence=draw(st.none() | st.integers(1, window)),
        overrides=tuple(draw(st.lists(st.sampled_from(OVERRIDES), unique=True))) if overrides else (),
        override_failures=draw(st.integers(repeat, 4)),
        clean_window=draw(st.integers(1, 10)),
    )


if __name__ == "__main__":  # a second process prints its decisions
    sys.stdout.write("\n".join(map(repr, drive(LIVELY, random_trace(0, 400)).decisions)))
