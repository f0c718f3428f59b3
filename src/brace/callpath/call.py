"""One call: an object that grows on its way through the stages of its mode."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from brace.callpath.phases import PhaseClock
from brace.context import Line, PromptTemplate, Tokenizer, WordTokenizer, plan_template
from brace.errors import LimitExceededError
from brace.ledger.records import Status
from brace.plan import Plan
from brace.planners.base import LineSpan, Planner, Prompt
from brace.planners.deadline import Deadline


@dataclass(slots=True, kw_only=True)
class OpenCall:
    """What is known of a call so far. Fields that the ledger's `Call` has too mean the same there."""

    # Who asked, why, and what it may spend. Set when the call is opened.
    lines: Sequence[Line]
    """The raw context."""
    mode: str = ""
    budget: int | None = None
    slo_ms: float | None = None
    deadline: Deadline = field(default_factory=lambda: Deadline(None))
    """Entered by the call path; whoever holds it can cancel."""
    index: int = 0
    t: int = 0
    at: float = 0.0
    triggers: tuple[str, ...] = ()
    override: str | None = None
    seed: int = 0
    clock: PhaseClock = field(default_factory=PhaseClock)

    # How its prompt is written and counted.
    template: PromptTemplate = field(default_factory=plan_template)
    tokenizer: Tokenizer = field(default_factory=WordTokenizer)
    overhead: int = 0
    """Tokens that the planner puts around every prompt."""
    reserve: int = 0
    """Tokens of the budget that later stages would like to fill."""
    tokens_template: int = 0
    tokens_in: int = 0

    # What the stages make of it.
    room: int = 0
    """Tokens that the lines may take in the attempt to shorten them that is under way."""
    shown: list[Line] = field(default_factory=list)
    """The lines that the planner is shown."""
    text: str = ""
    """The whole prompt."""
    in_model: int | None = None
    """What the planner may hold in its last layer, where it is the planner that prunes."""
    tokens_after: int = 0
    slack: int = 0
    floor_overrun: int = 0
    compressor: str = ""

    # What came of it.
    status: Status | None = None
    """None while it is under way. A stage that sets it ends the call."""
    plan: Plan = field(default_factory=Plan)
    """Empty unless `status` is ok or partial."""
    output: str = ""
    error: str = ""
    note: str = ""
    cold: bool = False
    latency_ms: float = 0.0
    tokens_out: int = 0
    tokens_read: int = 0
    tokens_cached: int = 0
    kept_mean: float = 0.0

    def count(self, text: str) -> int:
        """A whole prompt as the planner reads it: with what it puts around the text itself."""
        return self.tokenizer.count(text) + self.overhead

    def show(self, lines: list[Line]) -> bool:
        """Make these lines the prompt. Whether it is within the budget."""
        self.shown, self.text = lines, self.template.render(lines)
        self.tokens_after = self.count(self.text)
        return self.budget is None or self.tokens_after <= self.budget

    def prompt(self) -> Prompt:
        """What the planner is given."""
        # Where lines lie and which are never cut: only a planner that prunes in its layers looks at it.
        spans, at = [], len(self.template.head)
        for line in self.shown:
            spans.append(LineSpan(at, at + len(line.text), line.floor))
            at += len(line.text)
        return Prompt(self.text, self.tokens_after, self.in_model, tuple(spans))


class Stage(ABC):
    """One step of a mode's row. It may change what is shown, or end the call early by setting its status."""

    phase: ClassVar[str]
    """The ledger's word for the time it takes."""
    reserve: int = 0
    """Tokens of the budget that earlier stages should leave to it."""

    @abstractmethod
    def run(self, call: OpenCall) -> None:
        """Do its part. Long work looks at `call.deadline`."""

    def check(self, mode: str, planner: Planner) -> None:  # noqa: B027 - most go with any planner
        """Refuse a planner it cannot work with, before any call."""


def floors_exceed(tokens: int, budget: int) -> LimitExceededError:
    """The error of a call whose budget cannot hold what may never be cut."""
    return LimitExceededError(
        "tokens", value=tokens, limit=budget, source="the call's budget",
        detail="the template and what is never cut (task, goal, safety, current plan, last failure) "
        "do not fit; raise the budget or allow floor overruns",
    )  # fmt: skip
