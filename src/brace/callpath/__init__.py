"""One call, from the raw context to a plan or the reason why there is none."""

from brace.callpath.call import OpenCall, Stage
from brace.callpath.deadline import Deadline
from brace.callpath.fitting import Fit
from brace.callpath.path import CallPath, Mode
from brace.callpath.pool import Answer, PlannerPool
from brace.callpath.retrieve.base import Retrieve

__all__ = ["Answer", "CallPath", "Deadline", "Fit", "Mode", "OpenCall", "PlannerPool", "Retrieve", "Stage"]
