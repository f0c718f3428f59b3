"""What every loop shares: sense, decide, open a call, settle it, and write all of it down.

The two loops built on it differ only in how time passes: `EpisodeLoop` steps a world, `Agent` sits in a
user's own loop.
"""

from __future__ import annotations

import dataclasses
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from brace.callpath import CallPath, OpenCall
from brace.callpath.phases import PhaseClock
from brace.context import ContextBuffer, Segment
from brace.controller import CallOutcome, Decision, Rules, Signals
from brace.ledger.records import Call, Fallback, LatencyKind, Record, Step
from brace.loop.config import LoopConfig
from brace.loop.signals import signals_to_record
from brace.plan import Plan, is_change, normal_form, parse
from brace.planners import Deadline
from brace.worlds.base import PlanHolder

S = TypeVar("S")
_SAME = [name for name in Call.__struct_fields__ if name in OpenCall.__slots__ and name != "plan"]
"""What a call under way and its record both say, in the same words."""

Accept = Callable[[Plan], str | None]
"""A user's own check of a plan: None to take it, or the reason why not."""


class RecordSink(Protocol):
    """Where records go: a ledger writer, or nowhere."""

    def write(self, record: Record) -> None:
        """Keep one record."""
        ...


class NoLedger:
    """For loops that asked for no ledger."""

    def write(self, record: Record) -> None:
        """Forget it."""


class LoopCore(Generic[S]):
    """One episode's state between the controller, the context, the call path and the ledger."""

    def __init__(
        self,
        rules: Rules[S],
        path: CallPath,
        ledger: RecordSink,
        settings: LoopConfig,
        *,
        episode: int = 0,
        attempt: int = 0,
        seed: int = 0,
    ) -> None:
        self.path = path
        self.buffer = ContextBuffer(path.pool.planner.tokenizer)
        self.t = -1
        self.calls = 0
        self.wait_ms = 0.0
        self._refused = False
        """Whether the world refused the plan of the last call, which the controller hears as a failure."""
        self._told: list[Segment] = []
        """What became of plans and is not in the context yet."""
        self._rules = rules
        self._state = rules.start()
        self._ledger = ledger
        self._settings = settings
        self._stored = parse(settings.stored_plan, path.skills) if settings.stored_plan else None
        self._episode, self._attempt, self._seed = episode, attempt, seed
        self._phases = PhaseClock()

    def sense(self, segments: Iterable[Segment]) -> None:
        """Begin a step: append what is new to the context."""
        self.t += 1
        # They belong to the call that this step may decide. Most decide none, and then they are dropped.
        self._phases = PhaseClock()
        start = time.perf_counter()
        self.tell()
        self.buffer.extend(segments)
        self._phases.add("sense", start, time.perf_counter() - start)

    def tell(self) -> None:
        """Put what became of the last plans into the context now, not at the beginning of the next step.

        An episode of a world waits until then: the shipped planner learnt from contexts in which a plan is
        told one step after it was taken.
        """
        self.buffer.extend(self._told)
        self._told.clear()

    def decide(self, signals: Signals) -> Decision:
        """Ask the controller, time its three parts, and write the step down."""
        # Told a step later than it happened: the call was settled after that step's decision.
        if self._refused:
            signals, self._refused = dataclasses.replace(signals, failed=True), False
        begun = time.perf_counter()
        state, triggers = self._rules.observe(self._state, signals)
        seen = time.perf_counter()
        decision = self._rules.judge(state, self.t, triggers, signals)
        judged = time.perf_counter()
        if decision.replan:
            decision = dataclasses.replace(decision, budget=self._rules.spend(state, decision))
            self._phases.add("trigger_eval", begun, seen - begun)
            self._phases.add("stability_gate", seen, judged - seen)
            self._phases.add("budget_select", judged, time.perf_counter() - judged)
        self._state = self._rules.advance(state, decision)
        budget = decision.budget
        self._ledger.write(
            Step(
                self._episode, self.t, self._attempt, triggers, decision.replan, decision.gate,
                decision.override, decision.cancel,
                budget.mode if budget else None,
                budget.tokens if budget else None,
                budget.slo_ms if budget else None,
                signals.hazard == "critical",
                signals_to_record(signals),
            )
        )  # fmt: skip
        return decision

    def open_call(self, decision: Decision) -> OpenCall:
        """Turn a decision to replan into a call: a snapshot of the context, a budget, a deadline."""
        if decision.budget is None:
            raise ValueError(f"step {decision.t} decided not to replan")
        budget = decision.budget
        # Also without an SLO: a planner that never answers must not keep a loop for ever.
        limit = self._settings.give_up_s * 1e3
        if self._settings.enforce_deadline and budget.slo_ms is not None:
            limit = min(budget.slo_ms, limit)
        call = self.path.open(
            self.buffer.lines(), budget.mode, budget=budget.tokens, slo_ms=budget.slo_ms,
            deadline=Deadline(limit), index=self.calls, t=decision.t, at=time.time(),
            triggers=decision.triggers, override=decision.override,
            # Not Python's `hash`, which is salted: another process must draw the same.
            seed=zlib.crc32(f"{self._seed}:{self.calls}".encode()), clock=self._phases,
        )  # fmt: skip
        self.calls += 1
        return call

    def settle(
        self, call: OpenCall, holder: PlanHolder, kind: LatencyKind, *, still_ms: float
    ) -> CallOutcome:
        """Let the plan act, or fall back; tell the planner of it, write the call down, and tell the
        controller how it ended. `still_ms`: how long agents stood still for it."""
        started = time.perf_counter()
        accepted, fallback, before = None, None, holder.rest()
        if call.status in ("ok", "partial"):
            refusal = self._hand_over(call.plan, holder)
            if refusal is None:
                accepted = call.plan
            else:
                call.status, call.error, self._refused = "refused", refusal, True
        elif call.status == "unparsable":
            problem = f"the last answer was no plan: {call.error}"
            self._told.append(Segment("failure", problem, self.t))
        # Whoever cancelled a call asks anew at once, so the old plan goes on meanwhile.
        if accepted is None and call.status != "cancelled":
            fallback, accepted = self._fall_back(holder, before)
        changed = accepted is not None and is_change(accepted, before, self.path.skills)
        dispatched = time.perf_counter()
        late = call.slo_ms is not None and call.latency_ms > call.slo_ms
        missed = late or (call.slo_ms is not None and call.status in ("cut", "shed"))
        # Queueing for a shared planner is logged apart: it says something about the fleet, not the planner.
        wait_ms = max(0.0, still_ms - sum(p.ms for p in call.clock.phases if p.name == "replan.queue"))
        self.wait_ms += wait_ms
        plan = normal_form(accepted, self.path.skills) if accepted else ""
        if kind == "measured":
            # A recording has these already, and a formula says nothing about them.
            call.clock.add("execute", started, dispatched - started)
            call.clock.add("accounting", dispatched, time.perf_counter() - dispatched)
        self._ledger.write(
            Call(
                **{name: getattr(call, name) for name in _SAME},
                episode=self._episode, attempt=self._attempt, t_end=self.t,
                planner=self.path.pool.planner.name, counted_by=self.buffer.tokenizer.name,
                missed=missed, fallback=fallback, changed=changed, kind=kind, wait_ms=wait_ms,
                phases=tuple(call.clock.phases), plan=plan,
            )
        )  # fmt: skip
        return CallOutcome(self.t, changed, call.latency_ms, missed)

    def _hand_over(self, plan: Plan, holder: PlanHolder) -> str | None:
        refusal, told = tell_plan(holder, plan, self.t)
        self._told += told
        return refusal

    def _fall_back(self, holder: PlanHolder, before: Plan) -> tuple[Fallback, Plan | None]:
        """The first rung of the ladder that is possible; to stop always is."""
        for rung in self._settings.fallback:
            if rung == "keep" and not before.is_empty:
                return rung, None
            if rung == "stop":
                break
            if rung == "stored" and self._stored is not None:
                if self._hand_over(self._stored, holder) is None:
                    return rung, self._stored
                # Whoever refuses the plan kept for trouble is in trouble: nothing lower but to stop.
                break
        holder.stop()
        return "stop", None


def tell_plan(holder: PlanHolder, plan: Plan, step: int) -> tuple[str | None, list[Segment]]:
    """Hand a plan to whoever executes it: the refusal, if it is one, and what the planner is told of either.

    This is the only place where plans and refusals are put into words for the planner.
    """
    before = holder.rest()
    refusal = holder.apply(plan)
    if refusal is not None:
        return refusal, [Segment("failure", f"plan refused: {refusal}", step)]
    line = holder.line_for(plan, before)
    return None, [Segment("plan", line, step)] if line else []
