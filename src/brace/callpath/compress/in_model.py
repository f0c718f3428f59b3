"""No cutting of text: the planner prunes inside its own layers, down to the call's budget."""

from __future__ import annotations

from brace.callpath.call import OpenCall
from brace.callpath.compress.base import Compressor
from brace.context import Line
from brace.registry import compressors


@compressors.register("in-model")
class InModel(Compressor):
    """The whole context goes to the planner, together with the budget."""

    name = "in-model"
    in_model = True

    def compress(self, call: OpenCall) -> list[Line]:
        """Everything stays."""
        return list(call.lines)
