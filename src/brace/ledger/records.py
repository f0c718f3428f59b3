"""What is written down: one record a line, the schema of a run directory.

`SCHEMA` changes when a field is removed or changes its meaning; new optional fields keep it.
Fields at their default are left out of the line, so that an idle step costs a few dozen bytes.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

SCHEMA = 1

LatencyKind = Literal["measured", "replayed", "modelled"]
Status = Literal[
    "ok", "partial", "cut", "shed", "cancelled", "failed", "empty", "unparsable", "refused", "over_budget"
]
"""How a call ended.

ok: a whole plan was accepted · partial: its complete leading skills were · cut: the deadline came first and
nothing usable was there · shed: it could no longer make its deadline, so the planner was not asked ·
cancelled: a goal change or hazard called it off · failed: the planner raised · empty: it answered nothing ·
unparsable: no plan in the answer · refused: the world did not accept the plan · over_budget: what may never
be cut does not fit the budget.
"""
Fallback = Literal["keep", "stored", "stop"]


# Without gc, as steps: there are many, and records are never part of a cycle.
class Phase(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One timed part of a call. The parts of `replan` are named `replan.queue`, `.prefill`, `.decode`."""

    name: str
    start_ms: float
    """Since the call was entered; the step's own phases lie before 0."""
    ms: float
    tokens: int | None = None
    """Tokens the phase left for the next one, where it deals in tokens."""


class Shard(msgspec.Struct, frozen=True, tag="shard"):
    """The first line of every shard."""

    schema: int
    writer: str
    at: float


class Step(msgspec.Struct, frozen=True, tag="step", omit_defaults=True, gc=False):
    """One decision of the controller."""

    episode: int
    t: int
    attempt: int = 0
    """How often this episode had been begun before (a killed run begins it again)."""
    triggers: tuple[str, ...] = ()
    replan: bool = False
    gate: str | None = None
    """The gate reason when triggers were not honoured."""
    override: str | None = None
    cancel: str | None = None
    mode: str | None = None
    budget: int | None = None
    slo_ms: float | None = None
    critical: bool = False
    """A critical hazard was signalled."""
    signals: dict[str, Any] | None = None
    """What the controller was handed (fields not at their default): enough to decide again."""


class Call(msgspec.Struct, frozen=True, tag="call", omit_defaults=True, kw_only=True):
    """One executed (or shed) replanning call."""

    episode: int
    attempt: int = 0
    index: int
    """The call's number within its episode, from 0."""
    t: int
    """The step that decided it."""
    t_end: int
    """The step at which its plan arrived or was given up."""
    at: float
    """Unix time of its start."""
    triggers: tuple[str, ...] = ()
    override: str | None = None
    mode: str
    planner: str
    compressor: str
    budget: int | None = None
    slo_ms: float | None = None
    status: Status
    missed: bool = False
    fallback: Fallback | None = None
    changed: bool = False
    cold: bool = False
    """The planner's first call: its latency includes what is paid once."""
    kind: LatencyKind
    latency_ms: float
    wait_ms: float = 0.0
    """Time the agents stood still for want of this plan, queueing excluded."""
    tokens_template: int = 0
    tokens_in: int = 0
    """The uncut prompt: template and raw context."""
    tokens_after: int = 0
    tokens_read: int = 0
    """What entered the planner's first layer."""
    kept_mean: float = 0.0
    """Tokens worked on, mean over the planner's layers."""
    tokens_cached: int = 0
    """Of the prompt, kept from an earlier call and not read again."""
    tokens_out: int = 0
    slack: int = 0
    """Budget left unused although the context was cut."""
    floor_overrun: int = 0
    """Tokens over budget because what may never be cut alone exceeds it (only where that is allowed)."""
    counted_by: str = ""
    """The tokenizer that counted."""
    phases: tuple[Phase, ...] = ()
    output: str = ""
    """What the planner wrote, as far as it came."""
    plan: str = ""
    """The accepted plan in normal form."""
    error: str = ""
    note: str = ""
    """What the planner has to say about the call: a server that counts differently, say."""


class Episode(msgspec.Struct, frozen=True, tag="episode", omit_defaults=True, kw_only=True):
    """The end of one episode. Without it the episode counts as unfinished."""

    episode: int
    attempt: int = 0
    seed: int
    world: str
    success: bool | None = None
    """None where nobody judged (a user's own loop)."""
    steps: int
    wait_ms: float = 0.0
    # msgspec makes a new one for each record.
    figures: dict[str, float | None] = {}
    """The world's own numbers; None for one that is not finite."""
    error: str = ""


Record = Shard | Step | Call | Episode
