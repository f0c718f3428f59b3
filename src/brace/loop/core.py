"""What every loop shares: sense, decide, prepare a call, settle it, and write all of it down.

The two loops built on it differ only in how time passes: `EpisodeLoop` steps a world, `Agent` sits in a
user's own loop.
"""

from __future__ import annotations

import dataclasses
import math
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from brace.callpath import CallPath, CallRequest, CallResult, Deadline, PhaseClock, choose_fallback
from brace.context import ContextBuffer, Segment
from brace.controller import Budget, CallOutcome, Decision, Rules, Signals
from brace.ledger.records import Call, Fallback, LatencyKind, Record, Step
from brace.loop.config import LoopConfig
from brace.plan import Plan, is_change, normal_form, parse
from brace.worlds.base import World

S = TypeVar("S")
_FLOATS = ("progress", "divergence")
_SIGNAL_DEFAULTS = {f.name: f.default for f in dataclasses.fields(Signals)}


class RecordSink(Protocol):
    """Where records go: a ledger writer, or nowhere."""

    def write(self, record: Record) -> None:
        """Keep one record."""
        ...


class NoLedger:
    """For loops that asked for no ledger."""

    def write(self, record: Record) -> None:
        """Forget it."""


class PlanHolder(Protocol):
    """Who executes plans: the world, or the user's loop."""

    def apply(self, plan: Plan) -> str | None:
        """Take the plan, or say why not."""
        ...

    def rest(self) -> Plan:
        """What is left of the current plan."""
        ...

    def stop(self) -> None:
        """Drop the plan and stand still safely."""
        ...


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that was decided and is not settled yet."""

    index: int
    decision: Decision
    budget: Budget
    request: CallRequest
    phases: PhaseClock
    at: float


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
        self.refused = False
        """The last settled call's plan was refused: a failure, to be signalled at the next step."""
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
        self._phases = PhaseClock()
        start = time.perf_counter()
        self.buffer.extend(segments)
        self._phases.add("sense", start, time.perf_counter() - start)

    def decide(self, signals: Signals) -> Decision:
        """Ask the controller, time its three parts, and write the step down."""
        begun = time.perf_counter()
        state, triggers = self._rules.observe(self._state, signals)
        seen = time.perf_counter()
        verdict = self._rules.judge(state, triggers, signals)
        judged = time.perf_counter()
        budget = None
        if verdict.replan:
            budget = self._rules.spend(state, triggers, verdict)
            self._phases.add("trigger_eval", begun, seen - begun)
            self._phases.add("stability_gate", seen, judged - seen)
            self._phases.add("budget_select", judged, time.perf_counter() - judged)
        self._state = self._rules.advance(state, verdict)
        self._ledger.write(
            Step(
                self._episode, self.t, self._attempt, triggers, verdict.replan, verdict.gate,
                verdict.override, verdict.cancel,
                budget.mode if budget else None,
                budget.tokens if budget else None,
                budget.slo_ms if budget else None,
                signals.hazard == "critical",
                signals_to_record(signals),
            )
        )  # fmt: skip
        return Decision(self.t, triggers, verdict, budget)

    def open_call(self, decision: Decision) -> OpenCall:
        """Turn a decision to replan into a call: a snapshot of the context, a budget, a deadline."""
        if decision.budget is None:
            raise ValueError(f"step {decision.t} decided not to replan")
        budget = decision.budget
        give_up_ms = self._settings.give_up_s * 1e3
        enforced = self._settings.enforce_deadline and budget.slo_ms is not None
        limit = min(budget.slo_ms or give_up_ms, give_up_ms) if enforced else give_up_ms
        index = self.calls
        self.calls += 1
        request = CallRequest(
            lines=self.buffer.lines(),
            mode=budget.mode,
            budget=budget.tokens,
            deadline=Deadline(limit),
            seed=zlib.crc32(f"{self._seed}:{index}".encode()),
        )
        return OpenCall(index, decision, budget, request, self._phases, time.time())

    def settle(
        self,
        call: OpenCall,
        result: CallResult,
        holder: PlanHolder,
        kind: LatencyKind,
        *,
        stood_still_ms: float,
    ) -> CallOutcome:
        """Let the plan act, or fall back; write the call down; tell the controller how it ended."""
        status, error, fallback = result.status, result.error, None
        started = time.perf_counter()
        accepted: Plan | None = None
        before = holder.rest()
        if status in ("ok", "partial"):
            refusal = holder.apply(result.plan)
            if refusal is None:
                accepted = result.plan
            else:
                status, error = "refused", refusal
        self.refused = status == "refused"
        if accepted is None and status != "cancelled":
            fallback, accepted = self._fall_back(holder, before)
        changed = accepted is not None and is_change(accepted, before, self.path.skills)
        dispatched = time.perf_counter()
        slo = call.budget.slo_ms
        missed = slo is not None and (status in ("cut", "shed") or result.latency_ms > slo)
        tokens = result.tokens
        queue_ms = sum(phase.ms for phase in result.phases if phase.name == "replan.queue")
        wait_ms = max(0.0, stood_still_ms - queue_ms)
        self.wait_ms += wait_ms
        mode = self.path.modes[call.budget.mode]
        plan_text = normal_form(accepted, self.path.skills) if accepted else ""
        call.phases.phases = list(result.phases)
        if kind == "measured":
            # A recording has these already, and a formula says nothing about them.
            call.phases.add("execute", started, dispatched - started)
            call.phases.add("accounting", dispatched, time.perf_counter() - dispatched)
        self._ledger.write(
            Call(
                episode=self._episode, attempt=self._attempt, index=call.index,
                t=call.decision.t, t_end=self.t, at=call.at,
                triggers=call.decision.triggers, override=call.decision.verdict.override,
                mode=call.budget.mode, planner=self.path.pool.planner.name, compressor=mode.compressor.name,
                budget=call.budget.tokens, slo_ms=slo,
                status=status, missed=missed, fallback=fallback, changed=changed, cold=result.cold,
                kind=kind, latency_ms=result.latency_ms, wait_ms=wait_ms,
                tokens_template=tokens.template, tokens_in=tokens.context_in, tokens_after=tokens.after,
                tokens_read=tokens.read, kept_mean=tokens.kept_mean, tokens_cached=tokens.cached,
                tokens_out=tokens.out, slack=tokens.slack, floor_overrun=tokens.floor_overrun,
                counted_by=self.buffer.tokenizer.name,
                phases=tuple(call.phases.phases),
                output=result.output,
                plan=plan_text,
                error=error,
                note=result.note,
            )
        )  # fmt: skip
        return CallOutcome(self.t, changed, result.latency_ms, missed)

    def _fall_back(self, holder: PlanHolder, before: Plan) -> tuple[Fallback, Plan | None]:
        fallback = choose_fallback(
            self._settings.fallback, can_keep=not before.is_empty, has_stored=self._stored is not None
        )
        if fallback == "stored" and self._stored is not None:
            if holder.apply(self._stored) is None:
                return "stored", self._stored
            fallback = "stop"
        if fallback == "stop":
            holder.stop()
        return fallback, None


def signals_to_record(signals: Signals) -> dict[str, Any] | None:
    """The fields that say something."""
    said: dict[str, Any] = {
        name: value
        for name, default in _SIGNAL_DEFAULTS.items()
        if (value := getattr(signals, name)) != default
    }
    for name in _FLOATS:
        # JSON has no infinity and no NaN, and the replayed controller must see them as they were.
        if name in said and not math.isfinite(said[name]):
            said[name] = str(said[name])
    if signals.outcome is not None:
        said["outcome"] = dataclasses.asdict(signals.outcome)
    return said or None


def signals_from_record(said: dict[str, Any] | None) -> Signals:
    """The reverse."""
    said = dict(said or {})
    said |= {name: float(said[name]) for name in _FLOATS if name in said}
    if "outcome" in said:
        said["outcome"] = CallOutcome(**said["outcome"])
    return Signals(**said)


Accept = Callable[[Plan], str | None]
"""A user's own check of a plan: None to take it, or the reason why not."""


def tell_plan(world: World, plan: Plan, step: int) -> tuple[str | None, list[Segment]]:
    """Let the world take a plan: why it refused it, or None, and what to tell the planner of that."""
    before = world.rest()
    refusal = world.apply(plan)
    if refusal is not None:
        return refusal, [Segment("failure", f"plan refused: {refusal}", step)]
    line = world.line_for(plan, before)
    return None, [Segment("plan", line, step)] if line else []
