"""Change nothing: the whole context, or an error when it does not fit."""

from __future__ import annotations

from brace.callpath.call import OpenCall
from brace.callpath.compress.base import Compressor
from brace.context import Line
from brace.errors import LimitExceededError
from brace.registry import compressors


@compressors.register("none")
class NoCompression(Compressor):
    """For modes without a budget, or whose context is known to fit."""

    name = "none"

    def compress(self, call: OpenCall) -> list[Line]:
        """All lines; never a silent overrun."""
        tokens = sum(line.tokens for line in call.lines)
        if tokens > call.room:
            raise LimitExceededError(
                "tokens", value=tokens, limit=call.room, source="the call's budget",
                detail="the context is not compressed in this mode; choose a compressor or raise the budget",
            )  # fmt: skip
        return list(call.lines)
