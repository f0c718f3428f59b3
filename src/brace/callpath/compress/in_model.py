"""No cutting of text: the planner prunes inside its own layers, down to the call's budget."""

from __future__ import annotations

from brace.callpath.compress.base import CompressRequest
from brace.context import Line
from brace.registry import compressors


@compressors.register("in-model")
class InModel:
    """The whole context goes to the planner, together with the budget."""

    name = "in-model"

    def compress(self, request: CompressRequest) -> list[Line]:
        """Everything stays."""
        return list(request.lines)
