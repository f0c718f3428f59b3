"""BRACE inside a user's own loop.

agent = Agent(my_llm, task="bring the ball to the door", slo_ms=800, budget=512)
while not done:
    step = agent.step([f"ball at {ball}"], failed=bumped)
    robot.follow(step.plan)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from brace.callpath.compress import Compressor
from brace.context import Segment, Tokenizer
from brace.controller import CallOutcome, ControllerConfig, Decision, Severity, Signals
from brace.errors import ConfigError, LedgerError
from brace.ledger.manifest import MANIFEST, describe_run, read_manifest, write_manifest
from brace.ledger.records import Episode, Fallback
from brace.ledger.writer import LedgerWriter
from brace.loop.build import build_path, build_rules
from brace.loop.config import LADDER, Part, RunConfig, dump_config, load_config, read_yaml
from brace.loop.core import Accept, LoopCore, NoLedger
from brace.loop.flight import Flight
from brace.options import checked
from brace.plan import Plan, SkillSet
from brace.planners import PlannerPool
from brace.planners.base import Planner
from brace.planners.function import FunctionPlanner
from brace.registry import planners
from brace.worlds.base import PlanHolder

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
class _Held(PlanHolder):
    """The plan the user's loop is executing."""

    accept: Accept | None
    plan: Plan = field(default_factory=Plan)
    done: dict[int, int] = field(default_factory=dict)
    stopped: bool = False
    arrived: bool = False

    def apply(self, plan: Plan) -> str | None:
        refusal = self.accept(plan) if self.accept else None
        if refusal is None:
            self.plan, self.done, self.stopped, self.arrived = plan, {}, False, True
        return refusal

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


class Agent:
    """Decides at each step of the user's loop whether to replan, asks the planner within budget and deadline,
    and hands back the plan to follow. `step` does not block with `while_thinking="continue"`.

    This is the short way to one mode. `Agent.from_config` takes all that a configuration of `brace run` has.
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
        compress: str | Mapping[str, Any] | Compressor = "recency",
        controller: ControllerConfig | None = None,
        while_thinking: Literal["hold", "continue"] = "continue",
        fallback: tuple[Fallback, ...] = LADDER,
        stored_plan: str = "",
        accept: Accept | None = None,
        tokenizer: Tokenizer | None = None,
        ledger: str | Path | None = None,
    ) -> None:
        """Make an agent.

        `planner` is a function from prompt to plan text (or to pieces of it), a `Planner`, or a `PlannerPool`
        that several agents share. A planner that writes within a grammar makes it of the `skills`, and of the
        `names` that their arguments take (any, if not mentioned). `budget` counts the whole prompt in the
        planner's tokens: give its `tokenizer`, or counts are the built-in tokenizer's. `compress` is the name
        of a method, `{"name": …, "options": {…}}`, or one you made. `accept` may refuse a plan by saying why.
        `ledger` is the run directory (each agent that writes there is an episode of its own); without one
        nothing is written down.
        """
        method = compress if isinstance(compress, Compressor) else None
        for name, value, kind in (
            ("slo_ms", slo_ms, float | None), ("budget", budget, int | None),
            ("compress", compress, str | dict[str, Any] | Compressor), ("stored_plan", stored_plan, str),
            ("while_thinking", while_thinking, Literal["hold", "continue"]),
            ("fallback", fallback, tuple[str, ...]),
        ):  # fmt: skip
            checked(value, kind, f"Agent: {name}")
        knobs = checked(controller, ControllerConfig | None, "Agent: controller")
        pool = _pool(planner, tokenizer)
        config = load_config(
            {
                "name": "live",
                "planner": pool.planner.name,
                "budget": {"mode": _MODE},
                "modes": {
                    _MODE: {
                        "tokens": budget,
                        "slo_ms": slo_ms,
                        "compress": compress if method is None else method.name,
                    }
                },
                "loop": {
                    "while_thinking": while_thinking, "fallback": fallback, "stored_plan": stored_plan,
                },
            }
        )  # fmt: skip
        if knobs is not None:
            config = replace(config, controller=knobs)
        self._begin(config, pool, task, skills, names, accept, ledger, method)

    @classmethod
    def from_config(
        cls,
        config: str | Path | Mapping[str, Any] | RunConfig,
        planner: PlannerLike | None = None,
        *,
        task: str = "",
        skills: SkillSet | None = None,
        names: Mapping[str, Sequence[str]] | None = None,
        accept: Accept | None = None,
        tokenizer: Tokenizer | None = None,
        ledger: str | Path | None = None,
    ) -> Agent:
        """An agent with all that `brace run` takes: modes, budget policy, retriever, triggers, fallbacks.

        `config` is a YAML file or what would be in it; its `world` plays no part. Without a `planner` it is
        the one that the configuration names. The rest is as for `Agent`.
        """
        if isinstance(config, str | Path):
            config = read_yaml(config)
        loaded = config if isinstance(config, RunConfig) else load_config(config)
        if loaded.loop.clock != "wall" or loaded.loop.start_with_default:
            raise ConfigError(
                "Agent: loop.clock must be 'wall' and loop.start_with_default off; a loop of your own runs "
                "in real time and has no default plan"
            )
        made = planners.create(loaded.planner.name, loaded.planner.options) if planner is None else planner
        pool = _pool(made, tokenizer)
        loaded = replace(loaded, world=Part("live"), planner=Part(pool.planner.name))
        # Not through `__init__`, whose arguments are the short way to a configuration.
        agent = cls.__new__(cls)
        agent._begin(loaded, pool, task, skills, names, accept, ledger)
        return agent

    def _begin(
        self,
        config: RunConfig,
        pool: PlannerPool,
        task: str,
        skills: SkillSet | None,
        names: Mapping[str, Sequence[str]] | None,
        accept: Accept | None,
        ledger: str | Path | None,
        compressor: Compressor | None = None,
    ) -> None:
        for name, value, kind in (
            ("task", task, str), ("skills", skills, SkillSet | None),
            ("names", names, dict[str, Sequence[str]] | None), ("ledger", ledger, str | Path | None),
        ):  # fmt: skip
            checked(value, kind, f"Agent: {name}")
        if accept is not None and not callable(accept):
            raise ConfigError(f"Agent: accept = {accept!r}: expected a function of a plan")
        if skills is not None:
            pool.planner.bind(_Vocabulary(skills, names or {}))
        path = build_path(config, pool, skills, compressor)
        self._hold = config.loop.while_thinking == "hold"
        rules = build_rules(config)
        self._writer = _open_ledger(ledger, config)
        self._episode = self._writer.number if self._writer else 0
        self._core: LoopCore[Any] = LoopCore(
            rules, path, self._writer or NoLedger(), config.loop, episode=self._episode, seed=config.seed
        )
        if task:
            self._core.buffer.append(Segment("task", task))
        self._held = _Held(accept)
        self._flight: Flight | None = None
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
        readings: Mapping[str, float] | None = None,
        done: int | Mapping[int, int] = 0,
    ) -> AgentStep:
        """One turn of the loop. All arguments tell what happened since the last one.

        `context` is what is new to tell the planner (strings are observations), `goal` a new goal, `done` how
        many skills of the plan were completed, `readings` numbers for triggers of your own; the rest are the
        trigger flags.
        """
        held, core = self._held, self._core
        held.execute(done)
        held.arrived = False
        core.sense(_segments(context, goal, core.t + 1))
        if self._flight is not None and self._flight.poll(core.t) is not None:
            self._land(self._flight)
        decision = core.decide(
            Signals(
                failed=failed, succeeded=succeeded, progress=progress, deadlock=deadlock,
                divergence=divergence, hazard=hazard, goal_changed=goal is not None, readings=readings or {},
                exhausted=held.rest().is_empty, in_flight=self._flight is not None, outcome=self._outcome,
            )
        )  # fmt: skip
        self._outcome = None
        if decision.cancel is not None and self._flight is not None:
            self._cancel(self._flight, decision.cancel)
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
        flight = Flight(self._core.open_call(decision), self._core.path.run)
        # Asked now: by the time the plan is there, a skill may have ended.
        self._without_plan = self._held.rest().is_empty
        if self._hold:
            self._land(flight.run())
        else:
            self._flight = flight.start()

    def _land(self, flight: Flight) -> None:
        self._flight = None
        still = self._hold or self._without_plan
        self._outcome = self._core.settle(
            flight.call, self._held, "measured", still_ms=flight.call.latency_ms if still else 0.0
        )
        # A user's loop has no trained planner to please: the very next call is to know of this plan.
        self._core.tell()

    def _cancel(self, flight: Flight, cause: str) -> None:
        flight.cancel(cause)
        self._land(flight)


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
