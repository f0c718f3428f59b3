"""Where a call's latency comes from: the wall, a recording, or a formula."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from brace.callpath import Answer, CallPath, CallRequest, CallResult, Deadline, PhaseClock
from brace.callpath.call import TokenCounts
from brace.callpath.compress import InModel
from brace.callpath.pool import AnswerStatus
from brace.errors import BraceError
from brace.ledger.records import Call, LatencyKind, Phase, Status
from brace.plan import Plan
from brace.planners.base import Prompt, Usage

CallKey = tuple[int, int]
"""(episode, number of the call within it)."""

_STILL_RUNNING_MS = 1e9


class DivergedError(BraceError):
    """A replayed run did something its recording did not."""


class Clock(Protocol):
    """Makes calls and says how long they took."""

    @property
    def kind(self) -> LatencyKind:
        """Printed beside every latency."""
        ...

    def call(self, key: CallKey, path: CallPath, request: CallRequest, phases: PhaseClock) -> CallResult:
        """Make the call; its latency is of this clock's kind."""
        ...


class WallClock:
    """Measures real work."""

    kind: LatencyKind = "measured"

    def call(self, key: CallKey, path: CallPath, request: CallRequest, phases: PhaseClock) -> CallResult:
        """As long as it takes, or until its deadline."""
        return path.run(request, phases)


class ModelledClock:
    """A formula of the tokens read. The planner runs, but its own time does not count."""

    kind: LatencyKind = "modelled"

    def __init__(self, fixed_ms: float, per_token_ms: float) -> None:
        self._fixed_ms, self._per_token_ms = fixed_ms, per_token_ms

    def call(self, key: CallKey, path: CallPath, request: CallRequest, phases: PhaseClock) -> CallResult:
        """Cut at the deadline if the formula says so: then there is no plan, as nothing was streamed."""
        result = path.run(replace(request, deadline=Deadline(None)), phases)
        latency = self._fixed_ms + self._per_token_ms * result.tokens.after
        if latency > request.deadline.limit_ms:
            latency = request.deadline.limit_ms
            result = replace(result, status="cut", plan=Plan(), output="")
        return replace(
            result, latency_ms=latency, phases=(Phase("replan", 0.0, latency, result.tokens.after),)
        )


class ReplayClock:
    """Takes latencies and answers from a recording, so that a run repeats exactly.

    Compression runs again and must come out the same; the planner is not asked.
    """

    kind: LatencyKind = "replayed"

    def __init__(self, recorded: Mapping[CallKey, Call]) -> None:
        self._recorded = recorded

    @classmethod
    def of(cls, calls: Iterable[Call]) -> ReplayClock:
        """From the calls of a recorded run."""
        return cls({(call.episode, call.index): call for call in calls})

    def call(self, key: CallKey, path: CallPath, request: CallRequest, phases: PhaseClock) -> CallResult:
        """The recorded call, or an error if this is not the call that was recorded."""
        recorded = self._recorded.get(key)
        if recorded is None:
            raise DivergedError(
                f"the recording has no call {key[1]} in episode {key[0]}; was its configuration another?"
            )

        def answer(prompt: Prompt, deadline: Deadline) -> Answer:
            usage = None
            if recorded.compressor == InModel.name:
                usage = Usage(
                    recorded.tokens_read, recorded.tokens_cached, recorded.tokens_after, recorded.kept_mean
                )
            status = _ANSWERS.get(recorded.status, "done")
            return Answer(recorded.output, status, error=recorded.error, usage=usage)

        result = path.run(replace(request, deadline=Deadline(None)), phases, answer)
        self._compare(recorded, request, result.tokens, key)
        # A cancelled call was still running when it was called off: let it run until it is again.
        late = _STILL_RUNNING_MS if recorded.status == "cancelled" else 0.0
        return replace(
            result, latency_ms=recorded.latency_ms + late, phases=recorded.phases, cold=recorded.cold
        )

    def _compare(self, recorded: Call, request: CallRequest, tokens: TokenCounts, key: CallKey) -> None:
        then = (recorded.mode, recorded.budget, recorded.tokens_in, recorded.tokens_after)
        now = (request.mode, request.budget, tokens.context_in, tokens.after)
        if then != now:
            raise DivergedError(
                f"call {key[1]} of episode {key[0]} differs from its recording: "
                f"(mode, budget, tokens_in, tokens_after) was {then}, is {now}"
            )


_ANSWERS: dict[Status, AnswerStatus] = {
    "partial": "cut", "cut": "cut", "shed": "shed", "failed": "failed",
}  # fmt: skip
