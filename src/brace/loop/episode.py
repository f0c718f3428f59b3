"""One episode of a world: thinking costs world time, and the world goes on meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Generic, TypeVar

from brace.context import Segment
from brace.controller import CallOutcome
from brace.errors import BraceError
from brace.ledger.records import Episode
from brace.loop.clocks import Clock
from brace.loop.core import LoopCore, tell_plan
from brace.loop.flight import Flight
from brace.worlds import World

S = TypeVar("S")
Watch = Callable[[World, int], None]
"""Looks on at every step, after the decision and before the world moves: for videos."""


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
        self._flight: Flight | None = None

    def run(self, episode: int, seed: int, attempt: int = 0) -> Episode:
        """From reset to the end; every step, call and the episode itself are in the ledger afterwards."""
        world, core = self._world, self._core
        world.reset(seed)
        told: list[Segment] = []
        if self._start_with_default:
            refusal, told = tell_plan(world, world.default_plan(), 0)
            if refusal is not None:
                raise BraceError(f"world {world.id!r} refuses its own default plan: {refusal}")
        outcome: CallOutcome | None = None
        while core.t + 1 < world.max_steps and not world.finished():
            # The task must stand before the plan that is to serve it.
            core.sense([*world.observe(), *told])
            told = []
            if self._flight is not None and self._flight.poll(core.t) is not None:
                outcome = self._land(self._flight)
            outcome = self._decide(outcome, episode)
            thinking = self._flight is not None
            if self._flight is not None and not self._hold and world.rest().is_empty:
                self._flight.still_ms += world.dt * 1e3
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
        decision = core.decide(
            replace(
                world.events(), exhausted=world.rest().is_empty,
                in_flight=self._flight is not None, outcome=outcome,
            )
        )  # fmt: skip
        if decision.cancel is not None and self._flight is not None:
            self._cancel(self._flight, decision.cancel)
        world.decided(decision)
        if not decision.replan:
            return None
        call = core.open_call(decision)
        self._flight = Flight(
            call, lambda call: self._clock.make((episode, call.index), core.path, call)
        ).run()
        # Made before the world moves on: what happens meanwhile must not reach a planner asked before it.
        steps = round(call.latency_ms / 1e3 / world.dt)
        self._flight.arrives = core.t + steps
        return self._land(self._flight) if steps == 0 else None

    def _land(self, flight: Flight) -> CallOutcome:
        self._flight = None
        still_ms = flight.call.latency_ms if self._hold else flight.still_ms
        return self._core.settle(flight.call, self._world, self._clock.kind, still_ms=still_ms)

    def _cancel(self, flight: Flight, cause: str) -> None:
        """Called off before it arrived: its time so far is what it cost."""
        call = flight.cancel(cause)
        call.latency_ms = (self._core.t - call.t) * self._world.dt * 1e3
        self._land(flight)
