"""The rules the paper's authors coded for their proxy sweep, for that comparison and nothing else.

They are evaluated only where a trigger fires, and every window counts such evaluations, not steps. Their
gate is not Eq. 1: the cooldown is armed by churn (no progress since the last call, or a moving average of
that above .35), the commit window by an ordinary call, and two deferrals in a row let a call through.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from brace.controller.signals import Budget, Signals, Trigger, Verdict

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
class AuthorsRules:
    """δ, ω and w as they used them; a full call on trouble, an ordinary one otherwise."""

    cooldown: int
    commit: int
    window: int
    full: Budget
    partial: Budget

    def start(self) -> AuthorsState:
        """Nothing armed."""
        return AuthorsState()

    def observe(self, state: AuthorsState, signals: Signals) -> tuple[AuthorsState, tuple[Trigger, ...]]:
        """Their three triggers; `deadlock` is the world's own word."""
        state = replace(state, progress=state.progress + (signals.progress or 0.0))
        fired: dict[Trigger, bool] = {
            "periodic": state.t % PERIOD == 0,
            "failure": signals.failed,
            "deadlock": signals.deadlock,
        }
        triggers = tuple(name for name, on in fired.items() if on)
        if triggers and not signals.in_flight:
            state = replace(state, stalled=0 if state.moved else state.stalled + 1)
        return state, triggers

    def judge(self, state: AuthorsState, triggers: tuple[Trigger, ...], signals: Signals) -> Verdict:
        """Full call, defer, reuse or partial call. A deferral is logged as cooldown, a reuse as commit."""
        if not triggers:
            return Verdict(replan=False)
        if signals.in_flight:
            return Verdict(replan=False, gate="in_flight")
        if "deadlock" in triggers or state.stalled >= self.window:
            return Verdict(replan=True, override="deadlock")
        deferred = state.cooldown > 0 or not state.moved or state.churn > CHURN_LIMIT
        if deferred and state.deferrals < MOST_DEFERRALS:
            return Verdict(replan=False, gate="cooldown")
        if state.commit > 0 and not deferred:
            return Verdict(replan=False, gate="commit")
        return Verdict(replan=True)

    def spend(self, state: AuthorsState, triggers: tuple[Trigger, ...], verdict: Verdict) -> Budget:
        """Trouble gets the full budget."""
        return self.full if verdict.override else self.partial

    def advance(self, state: AuthorsState, verdict: Verdict) -> AuthorsState:
        """Windows move only where the controller was evaluated."""
        following = replace(state, t=state.t + 1)
        evaluated = verdict.replan or verdict.gate in ("cooldown", "commit")
        if not evaluated:
            return following
        churn = (1 - CHURN_WEIGHT) * state.churn + CHURN_WEIGHT * (not state.moved)
        following = replace(following, churn=churn, deferrals=0)
        if verdict.gate == "commit":
            return replace(following, commit=state.commit - 1)
        if verdict.override is None:
            running = state.cooldown > 0
            churned = not state.moved or state.churn > CHURN_LIMIT
            cooldown = state.cooldown - 1 if running else self.cooldown if churned else 0
            following = replace(following, cooldown=cooldown)
        if verdict.gate == "cooldown":
            return replace(following, deferrals=state.deferrals + 1)
        commit = state.commit if verdict.override else self.commit
        return replace(following, progress=0.0, called=True, stalled=0, commit=commit)
