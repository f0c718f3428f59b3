"""BRACE inside a user's own loop.

agent = Agent(my_llm, task="bring the ball to the door", slo_ms=800, budget=512)
while not done:
    step = agent.step([f"ball at {ball}"], failed=bumped)
    robot.follow(step.plan)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from brace.callpath import CallPath, CallResult, Mode, PlannerPool
from brace.callpath.compress import Compressor
from brace.context import Segment, Tokenizer, plan_template
from brace.controller import CallOutcome, ControllerConfig, Decision, Severity, Signals
from brace.errors import ConfigError, LedgerError
from brace.ledger.manifest import MANIFEST, describe_run, read_manifest, write_manifest
from brace.ledger.records import Episode, Fallback
from brace.ledger.writer import LedgerWriter
from brace.loop.build import build_rules
from brace.loop.config import BudgetConfig, LoopConfig, ModeConfig, Part, RunConfig, dump_config
from brace.loop.core import Accept, LoopCore, NoLedger, OpenCall
from brace.plan import Plan, SkillSet
from brace.planners.base import Planner
from brace.planners.function import FunctionPlanner
from brace.registry import compressors

PlannerLike = Planner | PlannerPool | Callable[[str], str | Iterable[str]]
_MODE = "pruned"


@dataclass(frozen=True, slots=True)
class AgentStep:
    """What the agent says at one step of the user's loop."""

    plan: Plan
    """What is left to execute. Empty: there is no plan (yet), or the agent was told to stop."""
    arrived: bool
    """A plan arrived in this step."""
    stop: bool
    """No plan, no fallback: stand still safely."""
    decision: Decision


@dataclass(slots=True)
class _Held:
    """The plan the user's loop is executing."""

    accept: Accept | None
    plan: Plan = field(default_factory=Plan)
    done: dict[int, int] = field(default_factory=dict)
    stopped: bool = False
    arrived: bool = False
    refusal: str = ""

    def apply(self, plan: Plan) -> str | None:
        refusal = self.accept(plan) if self.accept else None
        if refusal is not None:
            self.refusal = refusal
            return refusal
        self.plan, self.done, self.stopped, self.arrived = plan, {}, False, True
        return None

    def rest(self) -> Plan:
        return self.plan.rest(self.done)

    def stop(self) -> None:
        self.plan, self.done, self.stopped = Plan(), {}, True

    def execute(self, done: int | Mapping[int, int]) -> None:
        for agent, number in ({0: done} if isinstance(done, int) else done).items():
            self.done[agent] = self.done.get(agent, 0) + number


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    """What a planner is shown where a world has no object of its own."""

    skills: SkillSet
    names: Mapping[str, Sequence[str]]


class _Flight(threading.Thread):
    """A call under way in a thread of its own, so that the user's loop need not wait."""

    def __init__(self, call: OpenCall, path: CallPath, *, without_plan: bool) -> None:
        super().__init__(daemon=True, name="brace call")
        self.call = call
        self.without_plan = without_plan
        self._path = path
        self._result: CallResult | None = None
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            self._result = self._path.run(self.call.request, self.call.phases)
        except Exception as error:  # noqa: BLE001 - raised again in the user's own thread
            self._error = error

    def result(self) -> CallResult | None:
        """None while it runs."""
        if self.is_alive():
            return None
        if self._error is not None:
            raise self._error
        return self._result


class Agent:
    """Decides at each step of the user's loop whether to replan, asks the planner within budget and deadline,
    and hands back the plan to follow. `step` does not block with `while_thinking="continue"`.
    """

    def __init__(
        self,
        planner: PlannerLike,
        *,
        task: str = "",
        skills: SkillSet | None = None,
        names: Mapping[str, Sequence[str]] | None = None,
        slo_ms: float | None = None,
        budget: int | None = None,
        compress: str | Compressor = "recency",
        controller: ControllerConfig | None = None,
        while_thinking: Literal["hold", "continue"] = "continue",
        fallback: tuple[Fallback, ...] = ("keep", "stored", "stop"),
        stored_plan: str = "",
        accept: Accept | None = None,
        tokenizer: Tokenizer | None = None,
        ledger: str | Path | None = None,
    ) -> None:
        """Make an agent.

        `planner` is a function from prompt to plan text (or to pieces of it), a `Planner`, or a `PlannerPool`
        that several agents share. A planner that writes within a grammar makes it of the `skills`, and of the
        `names` that their arguments take (any, if not mentioned). `budget` counts the whole prompt in the
        planner's tokens: give its `tokenizer`, or counts are the built-in tokenizer's. `accept` may refuse a
        plan by saying why. `ledger` is the run directory (each agent that writes there is an episode of its
        own); without one nothing is written down.
        """
        self._pool = _pool(planner, tokenizer)
        if skills is not None and hasattr(self._pool.planner, "bind"):
            self._pool.planner.bind(_Vocabulary(skills, names or {}))
        method: Compressor = compressors.create(compress) if isinstance(compress, str) else compress
        self._config = RunConfig(
            name="live",
            world=Part("live"),
            planner=Part(self._pool.planner.name),
            controller=controller or ControllerConfig(),
            budget=BudgetConfig(mode=_MODE),
            modes={_MODE: ModeConfig(budget, slo_ms, Part(method.name))},
            loop=LoopConfig(while_thinking=while_thinking, fallback=fallback, stored_plan=stored_plan),
        )
        template = plan_template(skills.describe() if skills else "")
        path = CallPath(self._pool, {_MODE: Mode(method, template)}, skills)
        path.check_budget(_MODE, budget)
        self._writer = _open_ledger(ledger, self._config)
        self._episode = self._writer.number if self._writer else 0
        self._core: LoopCore[Any] = LoopCore(
            build_rules(self._config),
            path,
            self._writer or NoLedger(),
            self._config.loop,
            episode=self._episode,
        )
        if task:
            self._core.buffer.append(Segment("task", task))
        self._held = _Held(accept)
        self._flight: _Flight | None = None
        self._outcome: CallOutcome | None = None

    def step(
        self,
        context: Iterable[str | Segment] = (),
        *,
        failed: bool = False,
        succeeded: bool = False,
        progress: float | None = None,
        deadlock: bool = False,
        divergence: float = 0.0,
        hazard: Severity | None = None,
        goal: str | None = None,
        done: int | Mapping[int, int] = 0,
    ) -> AgentStep:
        """One turn of the loop. All arguments tell what happened since the last one.

        `context` is what is new to tell the planner (strings are observations), `goal` a new goal, `done` how
        many skills of the plan were completed; the rest are the trigger flags.
        """
        held, core = self._held, self._core
        held.execute(done)
        held.arrived = False
        core.sense(_segments(context, goal, core.t + 1))
        if self._flight is not None and (result := self._flight.result()) is not None:
            self._land(self._flight, result)
        refused, held.refusal = held.refusal, ""
        decision = core.decide(
            Signals(
                failed=failed or bool(refused), succeeded=succeeded, progress=progress, deadlock=deadlock,
                divergence=divergence, hazard=hazard, goal_changed=goal is not None,
                exhausted=held.rest().is_empty, in_flight=self._flight is not None, outcome=self._outcome,
            )
        )  # fmt: skip
        self._outcome = None
        if decision.verdict.cancel is not None and self._flight is not None:
            self._cancel(self._flight, decision.verdict.cancel)
        if decision.replan:
            self._start(decision)
        return AgentStep(held.rest(), held.arrived, held.stopped, decision)

    async def astep(self, context: Iterable[str | Segment] = (), **flags: Any) -> AgentStep:
        """`step` for asyncio loops: other tasks go on while a call is waited for."""
        return await asyncio.to_thread(self.step, context, **flags)

    @property
    def thinking(self) -> bool:
        """A call is in flight."""
        return self._flight is not None

    def close(self, success: bool | None = None) -> None:
        """End the run: cancel what is in flight and close the ledger. `success` is the user's own verdict."""
        if self._flight is not None:
            self._cancel(self._flight, "the agent was closed")
        if self._writer is not None:
            self._writer.write(
                Episode(
                    episode=self._episode, seed=0, world="live", success=success,
                    steps=self._core.t + 1, wait_ms=self._core.wait_ms,
                )
            )  # fmt: skip
            self._writer.close()
            self._writer = None

    def __enter__(self) -> Agent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, decision: Decision) -> None:
        call = self._core.open_call(decision)
        flight = _Flight(call, self._core.path, without_plan=self._held.rest().is_empty)
        if self._config.loop.while_thinking == "continue":
            self._flight = flight
            flight.start()
            return
        flight.run()
        result = flight.result()
        if result is not None:
            self._land(flight, result)

    def _land(self, flight: _Flight, result: CallResult) -> None:
        self._flight = None
        still = self._config.loop.while_thinking == "hold" or flight.without_plan
        self._outcome = self._core.settle(
            flight.call, result, self._held, "measured", stood_still_ms=result.latency_ms if still else 0.0
        )
        if self._held.arrived:
            self._core.buffer.append(Segment("plan", str(self._held.plan), self._core.t))
        if self._held.refusal:
            text = f"plan refused: {self._held.refusal}"
            self._core.buffer.append(Segment("failure", text, self._core.t))

    def _cancel(self, flight: _Flight, cause: str) -> None:
        deadline = flight.call.request.deadline
        deadline.cancel(cause)
        # The call path returns at once when cancelled; what may keep it is a compressor at work.
        flight.join(timeout=1.0)
        result = flight.result()
        if result is None:
            raise ConfigError(f"a call could not be cancelled ({cause}): its compressor does not come back")
        self._land(flight, replace(result, status="cancelled", plan=Plan(), error=f"cancelled: {cause}"))


def _pool(planner: PlannerLike, tokenizer: Tokenizer | None) -> PlannerPool:
    if isinstance(planner, PlannerPool):
        return planner
    if isinstance(planner, Planner):
        return PlannerPool(planner)
    if not callable(planner):
        raise ConfigError(f"planner: expected a function, a Planner or a PlannerPool, not {planner!r}")
    return PlannerPool(FunctionPlanner(planner, tokenizer))


def _open_ledger(directory: str | Path | None, config: RunConfig) -> LedgerWriter | None:
    if directory is None:
        return None
    folder = Path(directory)
    if not (folder / MANIFEST).exists():
        write_manifest(folder, describe_run(config.name, dump_config(config), ()))
    elif not read_manifest(folder).live:
        raise LedgerError(f"{folder} holds a run of another kind; give the agent a directory of its own")
    return LedgerWriter(folder)


def _segments(context: Iterable[str | Segment], goal: str | None, step: int) -> list[Segment]:
    if isinstance(context, str):
        raise ConfigError("context: expected a list of texts, not a single text; write [text]")
    news = [item if isinstance(item, Segment) else Segment("observation", item, step) for item in context]
    return news if goal is None else [Segment("goal", goal, step), *news]
