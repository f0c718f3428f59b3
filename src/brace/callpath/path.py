"""The way of a call: the stages of its mode in turn, then the planner, then what its answer says."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brace.callpath.answer import read_answer
from brace.callpath.call import OpenCall, Stage
from brace.context import Line, PromptTemplate
from brace.errors import ConfigError, LimitExceededError
from brace.plan import SkillSet
from brace.planners.base import Answer, Prompt
from brace.planners.deadline import Deadline
from brace.planners.pool import PlannerPool

Ask = Callable[[Prompt, Deadline], Answer]


@dataclass(frozen=True, slots=True)
class Mode:
    """What a mode switches on: its stages before the planner, in order, and how its prompt is written."""

    template: PromptTemplate
    stages: tuple[Stage, ...]


class CallPath:
    """Makes the calls of one loop."""

    def __init__(self, pool: PlannerPool, modes: Mapping[str, Mode], skills: SkillSet | None = None) -> None:
        self.pool = pool
        self.modes = modes
        self.skills = skills
        for name, mode in modes.items():
            for stage in mode.stages:
                stage.check(name, pool.planner)
        # Asked once: some planners have to ask a server.
        self._overhead = pool.planner.prompt_overhead
        count = pool.planner.tokenizer.count
        self._template_tokens = {
            name: count(mode.template.render([])) + self._overhead for name, mode in modes.items()
        }

    def check_budget(self, mode: str, budget: int | None) -> None:
        """Refuse a budget that cannot hold even the template, before any call is made."""
        template = self._template_tokens[mode]
        if budget is not None and budget <= template:
            raise ConfigError(
                f"modes.{mode}.tokens = {budget}: the prompt template alone has {template} tokens "
                f"({self.pool.planner.tokenizer.name}); give the budget room above it"
            )

    def open(self, lines: Sequence[Line], mode: str, **asked: Any) -> OpenCall:
        """A call about to be made; `asked` are further fields of it: budget, deadline, who asked and why."""
        row, template = self.modes[mode], self._template_tokens[mode]
        return OpenCall(
            lines=lines, mode=mode, template=row.template, tokenizer=self.pool.planner.tokenizer,
            overhead=self._overhead, reserve=sum(stage.reserve for stage in row.stages),
            tokens_template=template, tokens_in=template + sum(line.tokens for line in lines), **asked,
        )  # fmt: skip

    def run(self, call: OpenCall, ask: Ask | None = None) -> OpenCall:
        """Make the call. `ask` replaces the planner (a recording's answers, when replaying)."""
        with call.deadline as deadline:
            call.clock.enter_call()
            try:
                for stage in self.modes[call.mode].stages:
                    if call.status is None:
                        with call.clock.phase(stage.phase) as note:
                            stage.run(call)
                            note.tokens = call.tokens_after
            # A budget too small for the floors fails this call, not the loop: the old plan may still do.
            except LimitExceededError as error:
                call.status, call.error, call.tokens_after = "over_budget", str(error), 0
            if call.status is None:
                self._replan(call, ask or self.pool.ask)
            call.latency_ms = deadline.elapsed_ms()
        return call

    def _replan(self, call: OpenCall, ask: Ask) -> None:
        if call.budget is not None and call.in_model is None:
            # A promise, checked where all stages are behind us: a plugin may have broken it.
            if call.tokens_after > call.budget + call.floor_overrun:
                raise AssertionError(f"{call.tokens_after} tokens in a call with a budget of {call.budget}")
            if call.tokens_in > call.budget and not call.floor_overrun:
                call.slack = call.budget - call.tokens_after
        if call.deadline.expired():
            # It could no longer make it: better no answer than an outdated one.
            answer = Answer("", "cancelled" if call.deadline.cancelled_by else "shed")
        else:
            start = time.perf_counter()
            answer = ask(call.prompt(), call.deadline)
            call.clock.add("replan", start, time.perf_counter() - start, call.tokens_after)
            # The planner's parts are told by their lengths; they follow each other from its start.
            parts = {"queue": answer.queue_ms, "prefill": answer.prefill_ms, "decode": answer.decode_ms}
            for part, ms in parts.items():
                call.clock.add(f"replan.{part}", start, ms / 1e3)
                start += ms / 1e3
        read_answer(call, answer, self.skills)
