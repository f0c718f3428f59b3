"""When something goes wrong, and how often: drawn from the seed alone, so that every plan meets the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from brace.worlds.babyai.robots import LEFT, RIGHT

Disturbance = Literal["none", "normal", "strong"]


@dataclass(frozen=True, slots=True)
class Rates:
    """How much goes wrong."""

    move: float = 0.0
    """The chance that people move an object in a step."""
    locks: int = 0
    """Doors that people try to lock in an episode."""
    slip: float = 0.0
    """The chance that an action becomes a turn."""
    faults: tuple[float, ...] = ()
    """For each camera that may fail: how likely it does."""


RATES: dict[Disturbance, Rates] = {
    "none": Rates(),
    "normal": Rates(move=0.1, locks=1, slip=0.05, faults=(0.6,)),
    "strong": Rates(move=0.15, locks=2, slip=0.1, faults=(1.0, 0.6)),
}
_FAULT_STARTS = (5, 40)
_NOTICE_AFTER = (4, 20)
_REPAIR_AFTER = (40, 90)
_REPAIR_CHANCE = 0.5


@dataclass(frozen=True, slots=True)
class Fault:
    """One camera's bad time: from the first false report to its repair, and when people are told."""

    agent: int
    start: int
    notice: int
    repair: int | None


class Disturbances:
    """The schedule of one episode, and its slips step by step."""

    def __init__(
        self, seed: int, rates: Rates, steps: int, things: Sequence[str], doors: int, scouts: Sequence[int],
        agents: int,
    ) -> None:  # fmt: skip
        self._seed, self._rates, self._agents = seed, rates, agents
        moves = np.random.default_rng([seed, 1])
        self.moves = {
            step: things[moves.integers(len(things))]
            for step in range(1, steps)
            if moves.random() < rates.move
        }
        """At which step people move which object, if they can."""
        locks = np.random.default_rng([seed, 2])
        self.locks = {
            int(locks.integers(10, steps // 2)): locks.permutation(doors).tolist() for _ in range(rates.locks)
        }
        """At which step people lock the first of these doors that can be."""
        self.faults = _draw_faults(np.random.default_rng([seed, 3]), rates.faults, scouts)
        self._slips = np.random.default_rng([seed, 4])

    def slips(self) -> list[int | None]:
        """For each robot the turn its next action becomes, or None. Drawn in every step, moving or not."""
        chances, sides = self._slips.random(self._agents), self._slips.integers(2, size=self._agents)
        return [
            (LEFT, RIGHT)[side] if chance < self._rates.slip else None
            for chance, side in zip(chances, sides, strict=True)
        ]

    def stream(self, purpose: int, *numbers: int) -> np.random.Generator:
        """Draws for one event, which depend on nothing drawn before."""
        return np.random.default_rng([self._seed, purpose, *numbers])

    def is_faulty(self, agent: int, now: int) -> bool:
        """Whether this robot's camera sees wrong things now."""
        return any(
            fault.agent == agent and fault.start <= now and (fault.repair is None or now < fault.repair)
            for fault in self.faults
        )


def _draw_faults(rng: np.random.Generator, chances: Sequence[float], scouts: Sequence[int]) -> list[Fault]:
    faults = []
    for agent, chance in zip(rng.permutation(scouts).tolist(), chances, strict=False):
        happens = rng.random() < chance
        start = int(rng.integers(*_FAULT_STARTS))
        notice = start + int(rng.integers(*_NOTICE_AFTER))
        repair = notice + int(rng.integers(*_REPAIR_AFTER)) if rng.random() < _REPAIR_CHANCE else None
        if happens:
            faults.append(Fault(agent, start, notice, repair))
    return faults
