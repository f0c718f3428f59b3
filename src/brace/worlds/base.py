"""The contract of a world: where plans act. Simulators, games and robots look the same from here."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from brace.context import Segment
from brace.controller import Decision, Signals
from brace.errors import MissingExtraError
from brace.plan import Plan, SkillSet

Frame = NDArray[np.uint8]
"""Height × width × RGB."""


@dataclass(frozen=True, slots=True)
class WorldInfo:
    """What a world is, for those who choose one. Known without its simulator."""

    summary: str
    stands_for: str = ""
    """The row of the paper it measures for real."""
    real: bool = False
    """A third-party simulator with physics or rules of its own."""
    extra: str | None = None
    """What to install: `pip install 'brace-replan[extra]'`."""
    modules: tuple[str, ...] = ()
    """What must be importable."""


class PlanHolder(ABC):
    """Who executes plans: a world, or a user's own loop."""

    @abstractmethod
    def apply(self, plan: Plan) -> str | None:
        """Take the plan as the current one, or say why not."""

    @abstractmethod
    def rest(self) -> Plan:
        """What is left to execute of the current plan."""

    @abstractmethod
    def stop(self) -> None:
        """Drop the plan and stand still safely."""

    def line_for(self, plan: Plan, before: Plan) -> str:
        """How a plan that was just taken is told to the planner, `before` being what was left of the old one.
        Empty: it brings nothing new. The loop writes this down, and refusals too."""
        return str(plan)


class World(PlanHolder):
    """One episode at a time: `reset`, then in each step `observe`, `events`, perhaps `apply`, and `step`.

    Several agents share one world, one context and one plan.
    """

    info: ClassVar[WorldInfo] = WorldInfo("")
    id: str
    """Name and version: a change of text or rules is a new version."""
    dt: float
    """Seconds of world time in one step."""
    max_steps: int
    """An episode that is not finished by then has failed."""
    skills: SkillSet
    """What a plan may say, and to how many agents."""
    names: Mapping[str, tuple[str, ...]] = {}
    """For each argument of kind `name`: all names it can take, in any episode."""

    @abstractmethod
    def reset(self, seed: int) -> None:
        """Begin an episode. The same seed, plans and times give the same episode."""

    @abstractmethod
    def observe(self) -> list[Segment]:
        """What is new since the last call, as text a planner can use."""

    @abstractmethod
    def step(self, *, hold: bool) -> None:
        """Let `dt` pass: executing the plan, or holding still while the planner thinks."""

    @abstractmethod
    def success(self) -> bool:
        """The goal is reached."""

    def finished(self) -> bool:
        """Nothing more can happen in this episode."""
        return self.success()

    def events(self) -> Signals:
        """What the last step brought, as far as the world can tell. The loop adds what it knows itself."""
        return Signals()

    def figures(self) -> dict[str, float]:
        """Numbers of this episode for the tables: collisions, path length, …"""
        return {}

    def decided(self, decision: Decision) -> None:
        """Told what was decided in this step, before it steps: for worlds that show it, or feel it."""

    def default_plan(self) -> Plan:
        """What one would do knowing only the world's usual layout: the plan of the open-loop baseline."""
        return Plan()

    def frame(self) -> Frame | None:
        """A picture of the world now, height × width × RGB; None if it cannot be drawn."""
        return None

    def close(self) -> None:
        """Give back what the simulator holds."""


def need_simulator(module: str, info: WorldInfo, name: str) -> Any:
    """Import a simulator, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"world {name!r} ({error.name} is not installed)", info.extra or ""
        ) from error
