"""One call, from the raw context to a plan or the reason why there is none."""

from brace.callpath.call import CallPath, CallRequest, CallResult, Mode, TokenCounts
from brace.callpath.deadline import Deadline
from brace.callpath.fallback import choose_fallback
from brace.callpath.phases import PhaseClock
from brace.callpath.pool import Answer, PlannerPool

__all__ = [
    "Answer",
    "CallPath",
    "CallRequest",
    "CallResult",
    "Deadline",
    "Mode",
    "PhaseClock",
    "PlannerPool",
    "TokenCounts",
    "choose_fallback",
]
