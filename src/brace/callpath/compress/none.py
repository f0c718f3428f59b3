"""Change nothing: the whole context, or an error when it does not fit."""

from __future__ import annotations

from brace.callpath.compress.base import CompressRequest
from brace.context import Line
from brace.errors import LimitExceededError
from brace.registry import compressors


@compressors.register("none")
class NoCompression:
    """For modes without a budget, or whose context is known to fit."""

    name = "none"

    def compress(self, request: CompressRequest) -> list[Line]:
        """All lines; never a silent overrun."""
        tokens = sum(line.tokens for line in request.lines)
        if tokens > request.room:
            raise LimitExceededError(
                "tokens", value=tokens, limit=request.room, source="the call's budget",
                detail="the context is not compressed in this mode; choose a compressor or raise the budget",
            )  # fmt: skip
        return list(request.lines)
