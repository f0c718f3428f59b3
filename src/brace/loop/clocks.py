"""Where a call's latency comes from: the wall, a recording, or a formula."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar

from brace.callpath import CallPath, OpenCall
from brace.callpath.compress import InModel
from brace.errors import BraceError
from brace.ledger.records import Call, LatencyKind, Phase, Status
from brace.plan import Plan
from brace.planners import Answer, Deadline
from brace.planners.base import AnswerStatus, Prompt, Usage

CallKey = tuple[int, int]
"""(episode, number of the call within it)."""

_STILL_RUNNING_MS = 1e9


class DivergedError(BraceError):
    """A replayed run did something its recording did not."""


class Clock(ABC):
    """Makes calls and says how long they took."""

    kind: ClassVar[LatencyKind]
    """Printed beside every latency."""

    @abstractmethod
    def make(self, key: CallKey, path: CallPath, call: OpenCall) -> None:
        """Make the call; its latency is of this clock's kind."""


class WallClock(Clock):
    """Measures real work."""

    kind = "measured"

    def make(self, key: CallKey, path: CallPath, call: OpenCall) -> None:
        """As long as it takes, or until its deadline."""
        path.run(call)


class ModelledClock(Clock):
    """A formula of the tokens read. The planner runs, but its own time does not count."""

    kind = "modelled"

    def __init__(self, fixed_ms: float, per_token_ms: float) -> None:
        self._fixed_ms, self._per_token_ms = fixed_ms, per_token_ms

    def make(self, key: CallKey, path: CallPath, call: OpenCall) -> None:
        """Cut at the deadline if the formula says so: then there is no plan, as nothing was streamed."""
        # The real planner may take as long as it likes; only the formula's time counts.
        limit_ms, call.deadline = call.deadline.limit_ms, Deadline(None)
        path.run(call)
        call.latency_ms = self._fixed_ms + self._per_token_ms * call.tokens_after
        if call.latency_ms > limit_ms:
            call.latency_ms, call.status, call.plan, call.output = limit_ms, "cut", Plan(), ""
        call.clock.phases = [Phase("replan", 0.0, call.latency_ms, call.tokens_after)]


class ReplayClock(Clock):
    """Takes latencies and answers from a recording, so that a run repeats exactly.

    Compression runs again and must come out the same; the planner is not asked.
    """

    kind = "replayed"

    def __init__(self, recorded: Mapping[CallKey, Call]) -> None:
        self._recorded = recorded

    @classmethod
    def of(cls, calls: Iterable[Call]) -> ReplayClock:
        """From the calls of a recorded run."""
        return cls({(call.episode, call.index): call for call in calls})

    def make(self, key: CallKey, path: CallPath, call: OpenCall) -> None:
        """The recorded call, or an error if this is not the call that was recorded."""
        recorded = self._recorded.get(key)
        if recorded is None:
            raise DivergedError(
                f"the recording has no call {key[1]} in episode {key[0]}; was its configuration another?"
            )

        def answer(prompt: Prompt, deadline: Deadline) -> Answer:
            # Where only the planner can have shortened anything, what it kept is taken from the recording.
            in_layers = recorded.compressor == InModel.name or recorded.budget is None
            usage = Usage(
                recorded.tokens_read, recorded.tokens_cached,
                recorded.tokens_after if in_layers else None, recorded.kept_mean,
            )  # fmt: skip
            status = _ANSWERS.get(recorded.status, "done")
            return Answer(recorded.output, status, error=recorded.error, usage=usage)

        # How late the recorded call was is in its status already.
        call.deadline = Deadline(None)
        path.run(call, answer)
        then = (recorded.mode, recorded.budget, recorded.tokens_in, recorded.tokens_after)
        now = (call.mode, call.budget, call.tokens_in, call.tokens_after)
        if then != now:
            raise DivergedError(
                f"call {key[1]} of episode {key[0]} differs from its recording: "
                f"(mode, budget, tokens_in, tokens_after) was {then}, is {now}"
            )
        # A cancelled call was still running when it was called off: let it run until it is again.
        late = _STILL_RUNNING_MS if recorded.status == "cancelled" else 0.0
        call.latency_ms, call.cold = recorded.latency_ms + late, recorded.cold
        call.clock.phases = list(recorded.phases)


_ANSWERS: dict[Status, AnswerStatus] = {
    "partial": "cut", "cut": "cut", "shed": "shed", "failed": "failed",
}  # fmt: skip
