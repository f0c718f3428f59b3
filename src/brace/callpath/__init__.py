"""One call, from the raw context to a plan or the reason why there is none."""

from brace.callpath.call import OpenCall, Stage
from brace.callpath.fitting import Fit
from brace.callpath.path import CallPath, Mode
from brace.callpath.retrieve.base import Retrieve

__all__ = ["CallPath", "Fit", "Mode", "OpenCall", "Retrieve", "Stage"]
