"""The stage that fits a context's lines to the call's budget."""

from __future__ import annotations

from typing import ClassVar

from brace.callpath.call import OpenCall, Stage, floors_exceed
from brace.callpath.compress.base import Compressor
from brace.context import Line
from brace.errors import ConfigError
from brace.planners.base import Planner

_LEEWAY = 8
"""A planner that prunes in its layers keeps its last tokens too, a tenth of what is left: so much, as a part
of what may never be cut, it is given beyond that."""


class Fit(Stage):
    """Shortens the lines with a compressor until the whole prompt is within the budget."""

    phase: ClassVar[str] = "context_compress"

    def __init__(self, compressor: Compressor, *, allow_floor_overrun: bool = False) -> None:
        self.compressor = compressor
        self._allow_floor_overrun = allow_floor_overrun

    def check(self, mode: str, planner: Planner) -> None:
        """Only some planners prune in their layers."""
        if self.compressor.in_model and not planner.prunes:
            raise ConfigError(
                f"modes.{mode}.compress = {self.compressor.name!r}: planner {planner.name!r} does not prune "
                "in its layers; choose a compressor that cuts the text, or a local planner"
            )

    def run(self, call: OpenCall) -> None:
        """Show as much as the budget allows; what exceeds it all the same is noted as an overrun."""
        call.compressor = self.compressor.name
        everything = list(call.lines)
        if call.budget is None:
            call.show(everything)
        elif self.compressor.in_model:
            call.show(everything)
            call.in_model = self._held_in_model(call, call.budget)
            call.floor_overrun = call.in_model - call.budget
        else:
            self._cut(call, call.budget, everything)

    def _cut(self, call: OpenCall, budget: int, everything: list[Line]) -> None:
        """Lines may count a little more together than one by one, so every candidate is counted as a whole,
        and the room shrinks until it fits."""
        floors = [line for line in everything if line.floor]
        if not call.show(floors):
            if not self._allow_floor_overrun:
                raise floors_exceed(call.tokens_after, budget)
            call.floor_overrun = call.tokens_after - budget
            return
        limit = budget
        if call.tokens_in > limit:
            limit -= min(call.reserve, budget - call.tokens_after)
        elif call.show(everything):
            return
        least = sum(line.tokens for line in floors)
        call.room, step = limit - call.tokens_template, 1
        while call.room >= least:
            kept = self.compressor.compress(call)
            # Said by name: a method that keeps too much would otherwise look like a budget that never fits.
            if sum(line.tokens for line in kept) > call.room:
                raise AssertionError(
                    f"compressor {self.compressor.name!r} exceeds the {call.room} tokens it was given"
                )
            call.show(kept)
            if call.tokens_after <= limit:
                return
            # Growing steps: a context made to resist would otherwise be cut token by token.
            call.room -= max(step, call.tokens_after - limit)
            step *= 2
        call.show(floors)

    def _held_in_model(self, call: OpenCall, budget: int) -> int:
        """What the planner may hold in its last layer: the budget, or what may never be cut."""
        if call.tokens_after <= budget:
            return budget
        fixed = call.count(call.template.render([line for line in call.lines if line.floor]))
        if self._allow_floor_overrun:
            return max(budget, min(call.tokens_after, fixed + fixed // _LEEWAY))
        if fixed > budget:
            raise floors_exceed(fixed, budget)
        return budget
