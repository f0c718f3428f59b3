"""One call: compress to the budget, retrieve, ask the planner before the deadline, read its plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from brace.callpath.compress.base import Compressor, CompressRequest
from brace.callpath.compress.in_model import InModel
from brace.callpath.deadline import Deadline
from brace.callpath.phases import PhaseClock
from brace.callpath.pool import Answer, PlannerPool
from brace.callpath.retrieve.base import Retriever
from brace.context import Line, PromptTemplate, Segment
from brace.errors import ConfigError, LimitExceededError
from brace.ledger.records import Phase, Status
from brace.plan import Plan, PlanSyntaxError, SkillSet, parse, parse_partial
from brace.planners.base import LineSpan, Prompt, Usage

Ask = Callable[[Prompt, Deadline], Answer]


@dataclass(frozen=True, slots=True)
class Mode:
    """What a mode switches on."""

    compressor: Compressor
    template: PromptTemplate
    retriever: Retriever | None = None


@dataclass(frozen=True, slots=True)
class CallRequest:
    """One call to be made."""

    lines: Sequence[Line]
    """The raw context."""
    mode: str
    budget: int | None
    deadline: Deadline
    """Entered by the call; whoever holds it can cancel."""
    seed: int = 0


_LEEWAY = 8
"""A planner that prunes in its layers keeps its last tokens too, a tenth of what is left: so much, as a part
of what may never be cut, it is given beyond that."""


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """The tokens of one call; the words are those of the ledger."""

    template: int = 0
    context_in: int = 0
    after: int = 0
    out: int = 0
    slack: int = 0
    floor_overrun: int = 0
    read: int = 0
    cached: int = 0
    kept_mean: float = 0.0


@dataclass(frozen=True, slots=True)
class CallResult:
    """What came of a call, before the world has its say."""

    status: Status
    plan: Plan
    """Empty unless `status` is ok or partial."""
    output: str
    tokens: TokenCounts
    phases: tuple[Phase, ...]
    latency_ms: float
    error: str = ""
    cold: bool = False
    note: str = ""


class CallPath:
    """The ordered chain of phases that every call goes through."""

    def __init__(
        self,
        pool: PlannerPool,
        modes: Mapping[str, Mode],
        skills: SkillSet | None = None,
        *,
        allow_floor_overrun: bool = False,
    ) -> None:
        self.pool = pool
        self.modes = modes
        self.skills = skills
        self._allow_floor_overrun = allow_floor_overrun
        self._tokenizer = pool.planner.tokenizer
        self._overhead: int = getattr(pool.planner, "prompt_overhead", 0)
        for name, mode in modes.items():
            if isinstance(mode.compressor, InModel) and not getattr(pool.planner, "prunes", False):
                raise ConfigError(
                    f"modes.{name}.compress = 'in-model': planner {pool.planner.name!r} does not prune in "
                    "its layers; choose a compressor that cuts the text, or a local planner"
                )
        self._template_tokens = {name: self._count(mode.template.render([])) for name, mode in modes.items()}

    def _count(self, prompt: str) -> int:
        """The whole prompt as the planner reads it: with what it puts around the text itself."""
        return self._tokenizer.count(prompt) + self._overhead

    def check_budget(self, mode: str, budget: int | None) -> None:
        """Refuse a budget that cannot hold even the template, before any call is made."""
        template = self._template_tokens[mode]
        if budget is not None and budget <= template:
            raise ConfigError(
                f"modes.{mode}.tokens = {budget}: the prompt template alone has {template} tokens "
                f"({self._tokenizer.name}); give the budget room above it"
            )

    def run(
        self, request: CallRequest, clock: PhaseClock | None = None, ask: Ask | None = None
    ) -> CallResult:
        """Make the call. `ask` replaces the planner (a recording's answers, when replaying)."""
        clock = clock or PhaseClock()
        template = self._template_tokens[request.mode]
        tokens = TokenCounts(template, template + sum(line.tokens for line in request.lines))
        with request.deadline as deadline:
            clock.enter_call()
            try:
                prompt, tokens = self._prepare(request, tokens, clock)
            except LimitExceededError as error:
                answer = Answer("", "failed", error=str(error))
                return self._conclude(request, clock, tokens, answer, "over_budget")
            if deadline.expired():
                # It could no longer make it: better no answer than an outdated one.
                answer = Answer("", "cancelled" if deadline.cancelled_by else "shed")
            else:
                start = time.perf_counter()
                answer = (ask or self.pool.ask)(prompt, deadline)
                self._note_replan(clock, start, answer, prompt.tokens)
            return self._conclude(request, clock, tokens, answer)

    def _prepare(
        self, request: CallRequest, tokens: TokenCounts, clock: PhaseClock
    ) -> tuple[Prompt, TokenCounts]:
        mode = self.modes[request.mode]
        in_model = isinstance(mode.compressor, InModel) and request.budget is not None
        with clock.phase("context_compress") as note:
            whole = replace(request, budget=None) if in_model else request
            lines, text, after = self._compress(whole, mode, tokens)
            note.tokens = after
        if in_model:
            spans = _line_spans(mode.template, lines)
            limit = self._held_in_model(request, mode, after)
            prompt = Prompt(text, after, after, request.mode, mode.compressor.name, limit, spans)
            return prompt, replace(tokens, after=after, floor_overrun=limit - (request.budget or 0))
        if mode.retriever is not None:
            with clock.phase("retrieve") as note:
                text, after = self._retrieve(request, mode, mode.retriever, lines, after)
                note.tokens = after
        slack = overrun = 0
        if request.budget is not None:
            overrun = max(0, after - request.budget)
            if overrun and not self._allow_floor_overrun:
                raise AssertionError(f"{after} tokens in a call with a budget of {request.budget}")
            slack = request.budget - after if not overrun and tokens.context_in > request.budget else 0
        counts = replace(tokens, after=after, slack=slack, floor_overrun=overrun)
        spans = _line_spans(mode.template, lines)
        return Prompt(text, after, tokens.context_in, request.mode, mode.compressor.name, None, spans), counts

    def _held_in_model(self, request: CallRequest, mode: Mode, after: int) -> int:
        """What the planner may hold in its last layer: the budget, or what may never be cut."""
        budget = request.budget or 0
        if after <= budget:
            return budget
        fixed = self._count(mode.template.render([line for line in request.lines if line.floor]))
        if self._allow_floor_overrun:
            return max(budget, min(after, fixed + fixed // _LEEWAY))
        if fixed > budget:
            raise _floors_exceed(fixed, budget)
        return budget

    def _compress(self, request: CallRequest, mode: Mode, tokens: TokenCounts) -> tuple[list[Line], str, int]:
        """The surviving lines, the prompt, and its tokens.

        Lines may count a little more together than one by one, so every candidate is counted as a whole,
        and the room shrinks until it fits.
        """

        def whole(lines: list[Line]) -> tuple[list[Line], str, int]:
            text = mode.template.render(lines)
            return lines, text, self._count(text)

        everything = list(request.lines)
        if request.budget is None:
            return whole(everything)
        floors = whole([line for line in everything if line.floor])
        if floors[2] > request.budget:
            if self._allow_floor_overrun:
                return floors
            raise _floors_exceed(floors[2], request.budget)
        limit = request.budget
        if tokens.context_in <= limit:
            candidate = whole(everything)
            if candidate[2] <= limit:
                return candidate
        elif mode.retriever is not None:
            limit -= min(mode.retriever.reserve, request.budget - floors[2])
        least = sum(line.tokens for line in floors[0])
        room, step = limit - tokens.template, 1
        while room >= least:
            kept = mode.compressor.compress(
                CompressRequest(request.lines, room, self._tokenizer, request.seed, mode.template.head)
            )
            if sum(line.tokens for line in kept) > room:
                raise AssertionError(
                    f"compressor {mode.compressor.name!r} exceeds the {room} tokens it was given"
                )
            candidate = whole(kept)
            if candidate[2] <= limit:
                return candidate
            # Growing steps: a context made to resist would otherwise be cut token by token.
            room -= max(step, candidate[2] - limit)
            step *= 2
        return floors

    def _retrieve(
        self, request: CallRequest, mode: Mode, retriever: Retriever, lines: list[Line], after: int
    ) -> tuple[str, int]:
        step = max((line.segment.step for line in request.lines), default=0)
        text = mode.template.render(lines)
        for found in retriever.retrieve(request.lines):
            segment = Segment("retrieved", found, step)
            longer = [*lines, Line(segment, segment.render(), 0)]
            candidate = mode.template.render(longer)
            count = self._count(candidate)
            if request.budget is None or count <= request.budget:
                lines, text, after = longer, candidate, count
        return text, after

    def _note_replan(self, clock: PhaseClock, start: float, answer: Answer, tokens: int) -> None:
        clock.add("replan", start, time.perf_counter() - start, tokens)
        for part, ms in (
            ("queue", answer.queue_ms), ("prefill", answer.prefill_ms), ("decode", answer.decode_ms),
        ):  # fmt: skip
            clock.add(f"replan.{part}", start, ms / 1e3)
            start += ms / 1e3

    def _conclude(
        self,
        request: CallRequest,
        clock: PhaseClock,
        tokens: TokenCounts,
        answer: Answer,
        status: Status | None = None,
    ) -> CallResult:
        plan, error = Plan(), answer.error
        if status is None:
            status, plan, problem = read_plan(answer, self.skills)
            error = error or problem
        out = self._tokenizer.count(answer.text) if answer.text else 0
        usage = answer.usage or Usage()
        tokens = _used(replace(tokens, out=out), usage, request, self.modes[request.mode])
        return CallResult(
            status, plan, answer.text, tokens, tuple(clock.phases),
            request.deadline.elapsed_ms(), error, answer.cold, usage.note,
        )  # fmt: skip


def _floors_exceed(tokens: int, budget: int) -> LimitExceededError:
    return LimitExceededError(
        "tokens", value=tokens, limit=budget, source="the call's budget",
        detail="the template and what is never cut (task, goal, safety, current plan, last failure) "
        "do not fit; raise the budget or allow floor overruns",
    )  # fmt: skip


def _line_spans(template: PromptTemplate, lines: Sequence[Line]) -> tuple[LineSpan, ...]:
    spans, at = [], len(template.head)
    for line in lines:
        spans.append(LineSpan(at, at + len(line.text), line.floor))
        at += len(line.text)
    return tuple(spans)


def _used(tokens: TokenCounts, usage: Usage, request: CallRequest, mode: Mode) -> TokenCounts:
    """The counts with what the planner says of its own work. A text planner works on all it is given."""
    after, overrun = tokens.after if usage.kept_last is None else usage.kept_last, tokens.floor_overrun
    if isinstance(mode.compressor, InModel) and request.budget is not None:
        if after > request.budget + overrun:
            if usage.kept_last is not None:
                raise AssertionError(f"{after} tokens in the last layer, with a budget of {request.budget}")
            # Cut before it had pruned: nothing was worked on to the end.
            after = 0
        overrun = max(0, after - request.budget)
    read = tokens.after if usage.tokens_read is None else usage.tokens_read
    mean = float(after) if usage.kept_mean is None else usage.kept_mean
    return replace(
        tokens, after=after, floor_overrun=overrun, read=read, cached=usage.tokens_cached, kept_mean=mean
    )


def read_plan(answer: Answer, skills: SkillSet | None) -> tuple[Status, Plan, str]:
    """The plan in an answer. A cut or truncated one gives its complete leading skills, if it has any."""
    if answer.status in ("shed", "cancelled", "failed"):
        return answer.status, Plan(), answer.error
    if not answer.text.strip():
        return ("cut" if answer.status == "cut" else "empty"), Plan(), ""
    try:
        plan = parse(answer.text, skills)
    except PlanSyntaxError as problem:
        leading, _ = parse_partial(answer.text, skills)
        if leading and (answer.status == "cut" or _ends_within_a_skill(answer.text, problem.offset, skills)):
            return "partial", leading, str(problem)
        return ("cut" if answer.status == "cut" else "unparsable"), Plan(), str(problem)
    return ("partial" if answer.status == "cut" else "ok"), plan, ""


def _ends_within_a_skill(text: str, offset: int, skills: SkillSet | None) -> bool:
    """Whether the text just stops: at its end, or in the name of a skill that was expected there."""
    word = text[offset:].strip().lower()
    if not word:
        return True
    expected = text[:offset].rstrip(" \t").endswith((";", ":", "\n"))
    return expected and skills is not None and any(name.startswith(word) for name in skills.names)
