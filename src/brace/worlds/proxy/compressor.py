"""A stand-in for E-RECAP, for the paper's proxy sweep only: simulated, by arithmetic, as the authors did it.

It keeps the floors and 70 % of the rest, then cuts to the budget; which tokens survive plays no part there,
so the newest do. No figure made with it says anything about E-RECAP.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from brace.callpath import OpenCall
from brace.callpath.compress import Recency
from brace.context import Line

KEEP = 0.7


@dataclass(eq=False)
class ProxyErecap(Recency):
    """Simulated E-RECAP at a keep ratio of .7."""

    name = "proxy-erecap (simulated)"

    granularity: Literal["token"] = field(default="token", init=False)

    def compress(self, call: OpenCall) -> list[Line]:
        """Floors and 70 % of the rest, at most the room."""
        floors = sum(line.tokens for line in call.lines if line.floor)
        rest = sum(line.tokens for line in call.lines) - floors
        return super().compress(replace(call, room=min(call.room, floors + int(KEEP * rest))))
