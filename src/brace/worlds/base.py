"""The contract of a world: where plans act. Simulators, games and robots look the same from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from brace.context import Segment
from brace.plan import Plan, SkillSet


@dataclass(frozen=True, slots=True)
class Events:
    """What happened in the last step, as far as the world can tell. Silence means "nothing"."""

    failed: bool = False
    """An action or skill ended in failure, or a plan was refused."""
    succeeded: bool = False
    """An action or skill ended well."""
    progress: float | None = None
    """How much nearer the goal; None when unknown or when the world was told to hold."""
    deadlock: bool = False
    divergence: float = 0.0
    hazard: Literal["warning", "critical"] | None = None
    goal_changed: bool = False
    """The goal is no longer the one the current plan was asked for."""


class World(Protocol):
    """One episode at a time: `reset`, then in each step `observe`, `events`, perhaps `apply`, and `step`."""

    @property
    def id(self) -> str:
        """Name and version: a change of text or rules is a new version."""
        ...

    @property
    def dt(self) -> float:
        """Seconds of world time in one step."""
        ...

    @property
    def max_steps(self) -> int:
        """An episode that is not finished by then has failed."""
        ...

    @property
    def skills(self) -> SkillSet:
        """What a plan may say."""
        ...

    def reset(self, seed: int) -> None:
        """Begin an episode. The same seed, plans and times give the same episode."""
        ...

    def observe(self) -> list[Segment]:
        """What is new since the last call, as text a planner can use."""
        ...

    def events(self) -> Events:
        """What the last step brought."""
        ...

    def apply(self, plan: Plan) -> str | None:
        """Take the plan as the current one, or say why not."""
        ...

    def rest(self) -> Plan:
        """What is left to execute of the current plan."""
        ...

    def stop(self) -> None:
        """Drop the plan and stand still safely."""
        ...

    def suppressed(self, reason: str) -> None:
        """Told that a trigger was not honoured. Most worlds do not care."""
        ...

    def step(self, *, hold: bool) -> None:
        """Let `dt` pass: executing the plan, or holding still while the planner thinks."""
        ...

    def finished(self) -> bool:
        """Nothing more can happen in this episode."""
        ...

    def success(self) -> bool:
        """The goal is reached."""
        ...

    def figures(self) -> dict[str, float]:
        """Numbers of this episode for the tables: collisions, path length, …"""
        ...
