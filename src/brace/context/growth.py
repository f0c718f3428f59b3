"""How long a context gets: Eq. 4, `N_t = N_0 + Σ_i Σ_a n_{i,a}`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Growth:
    """Steady growth: every agent adds the same number of tokens each step."""

    start: float
    """N_0."""
    per_agent_step: float
    """n, the mean of n_{i,a}."""
    agents: int = 1
    """K."""

    def at(self, t: int) -> float:
        """N_t."""
        return self.start + t * self.agents * self.per_agent_step

    def steps_until(self, tokens: float) -> float:
        """The step at which the context first has `tokens`; infinite if it does not grow."""
        rate = self.agents * self.per_agent_step
        if tokens <= self.start:
            return 0.0
        return (tokens - self.start) / rate if rate > 0 else float("inf")


def fit_growth(contributions: Mapping[tuple[int, int | None], int], agents: int) -> Growth:
    """The steady growth that a buffer's contributions show: step 0 is N_0, the mean over the rest is n."""
    start = sum(tokens for (step, _), tokens in contributions.items() if step == 0)
    steps = max((step for step, _ in contributions), default=0)
    grown = sum(contributions.values()) - start
    return Growth(start, grown / (steps * agents) if steps else 0.0, agents)
