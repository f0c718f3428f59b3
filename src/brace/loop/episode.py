"""One episode of a world: thinking costs world time, and the world goes on meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from brace.callpath import CallResult
from brace.controller import CallOutcome, Signals
from brace.errors import BraceError
from brace.ledger.records import Episode
from brace.loop.clocks import Clock
from brace.loop.core import LoopCore, OpenCall
from brace.plan import Plan
from brace.worlds import World

S = TypeVar("S")
Watch = Callable[[World, int], None]
"""Looks on at every step, after the decision and before the world moves: for videos."""


@dataclass(slots=True)
class _InFlight:
    call: OpenCall
    result: CallResult
    arrives: int
    """The step at whose beginning the plan is there."""
    stood_still: int = 0
    """Steps without a plan to execute, while not told to hold."""


class EpisodeLoop(Generic[S]):
    """Runs a simulated world. A call's result is worked out at once and held back until its time has passed
    in the world: `round(latency / dt)` steps, in which the world holds still or goes on with the old plan.
    """

    def __init__(
        self,
        core: LoopCore[S],
        world: World,
        clock: Clock,
        *,
        hold: bool,
        start_with_default: bool = False,
        watch: Watch | None = None,
    ) -> None:
        self._core = core
        self._world = world
        self._clock = clock
        self._hold = hold
        self._start_with_default = start_with_default
        self._watch = watch
        self._flight: _InFlight | None = None

    def run(self, episode: int, seed: int, attempt: int = 0) -> Episode:
        """From reset to the end; every step, call and the episode itself are in the ledger afterwards."""
        world, core = self._world, self._core
        world.reset(seed)
        if self._start_with_default:
            refusal = world.apply(world.default_plan())
            if refusal is not None:
                raise BraceError(f"world {world.id!r} refuses its own default plan: {refusal}")
        outcome: CallOutcome | None = None
        while core.t + 1 < world.max_steps and not world.finished():
            core.sense(world.observe())
            if self._flight is not None and core.t >= self._flight.arrives:
                outcome = self._land(self._flight)
            outcome = self._decide(outcome, episode)
            thinking = self._flight is not None
            if self._flight is not None and not self._hold and world.rest().is_empty:
                self._flight.stood_still += 1
            if self._watch is not None:
                self._watch(world, core.t)
            world.step(hold=thinking and self._hold)
        if self._flight is not None:
            self._cancel(self._flight, "the episode ended")
        return Episode(
            episode=episode, attempt=attempt, seed=seed, world=world.id, success=world.success(),
            steps=core.t + 1, wait_ms=core.wait_ms, figures=dict(world.figures()),
        )  # fmt: skip

    def _decide(self, outcome: CallOutcome | None, episode: int) -> CallOutcome | None:
        """One decision and what follows from it. Returns the outcome to be told at the next step."""
        world, core = self._world, self._core
        events = world.events()
        refused, core.refused = core.refused, False
        decision = core.decide(
            Signals(
                failed=events.failed or refused, succeeded=events.succeeded, progress=events.progress,
                deadlock=events.deadlock, divergence=events.divergence, hazard=events.hazard,
                goal_changed=events.goal_changed, exhausted=world.rest().is_empty,
                in_flight=self._flight is not None, outcome=outcome,
            )
        )  # fmt: skip
        if decision.verdict.cancel is not None and self._flight is not None:
            self._cancel(self._flight, decision.verdict.cancel)
        if not decision.replan:
            if decision.verdict.gate is not None:
                world.suppressed(decision.verdict.gate)
            return None
        call = core.open_call(decision)
        result = self._clock.call((episode, call.index), core.path, call.request, call.phases)
        steps = round(result.latency_ms / 1e3 / world.dt)
        self._flight = _InFlight(call, result, arrives=core.t + steps)
        return self._land(self._flight) if steps == 0 else None

    def _land(self, flight: _InFlight) -> CallOutcome:
        self._flight = None
        still_ms = flight.result.latency_ms if self._hold else flight.stood_still * self._world.dt * 1e3
        return self._core.settle(
            flight.call, flight.result, self._world, self._clock.kind, stood_still_ms=still_ms
        )

    def _cancel(self, flight: _InFlight, cause: str) -> None:
        """Called off before it arrived: its time so far is what it cost."""
        spent_ms = (self._core.t - flight.call.decision.t) * self._world.dt * 1e3
        flight.result = replace(
            flight.result, status="cancelled", plan=Plan(), error=f"cancelled: {cause}", latency_ms=spent_ms
        )
        self._land(flight)
