"""The rules the paper's authors coded for their proxy sweep, for that comparison and nothing else.

They are evaluated only where a trigger fires, and every window counts such evaluations, not steps. Their
gate is not Eq. 1: the cooldown is armed by churn (no progress since the last call, or a moving average of
that above .35), the commit window by an ordinary call, and two deferrals in a row let a call through.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from brace.controller import Budget, Decision, Rules, Signals
from brace.errors import ConfigError

PERIOD = 10
LITTLE = 0.02
"""Progress since the last call below this is none."""
CHURN_LIMIT, CHURN_WEIGHT = 0.35, 0.2
MOST_DEFERRALS = 2


@dataclass(frozen=True, slots=True)
class AuthorsState:
    """What their controller remembers."""

    t: int = 0
    progress: float = 0.0
    """Since the last call."""
    called: bool = False
    stalled: int = 0
    """Evaluations in a row without progress."""
    churn: float = 0.0
    """The moving average, as it stood before this evaluation."""
    cooldown: int = 0
    commit: int = 0
    deferrals: int = 0

    @property
    def moved(self) -> bool:
        """Whether the current plan has brought anything yet."""
        return not self.called or self.progress >= LITTLE


@dataclass(frozen=True)
class AuthorsRules(Rules[AuthorsState]):
    """δ, ω and w as they used them; a full call on trouble, an ordinary one otherwise."""

    def __post_init__(self) -> None:
        for mode in ("full", "pruned"):
            if mode not in self.policy.modes:
                raise ConfigError(
                    f"rules 'authors-proxy' need the modes full and pruned; {mode!r} is missing"
                )

    def start(self) -> AuthorsState:
        """Nothing armed."""
        return AuthorsState()

    def observe(self, state: AuthorsState, signals: Signals) -> tuple[AuthorsState, tuple[str, ...]]:
        """Their three triggers; `deadlock` is the world's own word."""
        state = replace(state, progress=state.progress + (signals.progress or 0.0))
        fired: dict[str, bool] = {
            "periodic": state.t % PERIOD == 0,
            "failure": signals.failed,
            "deadlock": signals.deadlock,
        }
        triggers = tuple(name for name, on in fired.items() if on)
        if triggers and not signals.in_flight:
            state = replace(state, stalled=0 if state.moved else state.stalled + 1)
        return state, triggers

    def judge(self, state: AuthorsState, t: int, triggers: tuple[str, ...], signals: Signals) -> Decision:
        """Full call, defer, reuse or partial call. A deferral is logged as cooldown, a reuse as commit."""
        if not triggers:
            return Decision(t)
        if signals.in_flight:
            return Decision(t, triggers, gate="in_flight")
        if "deadlock" in triggers or state.stalled >= self.config.window:
            return Decision(t, triggers, True, override="deadlock")
        deferred = state.cooldown > 0 or not state.moved or state.churn > CHURN_LIMIT
        if deferred and state.deferrals < MOST_DEFERRALS:
            return Decision(t, triggers, gate="cooldown")
        if state.commit > 0 and not deferred:
            return Decision(t, triggers, gate="commit")
        return Decision(t, triggers, True)

    def spend(self, state: AuthorsState, decision: Decision) -> Budget:
        """Trouble gets the full budget."""
        return self.policy.modes["full" if decision.override else "pruned"]

    def advance(self, state: AuthorsState, decision: Decision) -> AuthorsState:
        """Windows move only where the controller was evaluated."""
        following = replace(state, t=state.t + 1)
        evaluated = decision.replan or decision.gate in ("cooldown", "commit")
        if not evaluated:
            return following
        churn = (1 - CHURN_WEIGHT) * state.churn + CHURN_WEIGHT * (not state.moved)
        following = replace(following, churn=churn, deferrals=0)
        if decision.gate == "commit":
            return replace(following, commit=state.commit - 1)
        if decision.override is None:
            running = state.cooldown > 0
            churned = not state.moved or state.churn > CHURN_LIMIT
            cooldown = state.cooldown - 1 if running else self.config.cooldown if churned else 0
            following = replace(following, cooldown=cooldown)
        if decision.gate == "cooldown":
            return replace(following, deferrals=state.deferrals + 1)
        commit = state.commit if decision.override else self.config.commit
        return replace(following, progress=0.0, called=True, stalled=0, commit=commit)
