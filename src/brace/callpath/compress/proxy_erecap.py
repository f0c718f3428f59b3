"""A stand-in for E-RECAP, for the paper's proxy sweep only: simulated, by arithmetic, as the authors did it.

It keeps the floors and 70 % of the rest, then cuts to the budget; which tokens survive plays no part there,
so the newest do. No figure made with it says anything about E-RECAP.
"""

from __future__ import annotations

from dataclasses import replace

from brace.callpath.compress.base import CompressRequest
from brace.callpath.compress.recency import Recency
from brace.context import Line
from brace.registry import compressors

KEEP = 0.7


@compressors.register("proxy-erecap")
class ProxyErecap(Recency):
    """Simulated E-RECAP at a keep ratio of .7."""

    name = "proxy-erecap (simulated)"

    def __init__(self) -> None:
        super().__init__("token")

    def compress(self, request: CompressRequest) -> list[Line]:
        """Floors and 70 % of the rest, at most the room."""
        floors = sum(line.tokens for line in request.lines if line.floor)
        rest = sum(line.tokens for line in request.lines) - floors
        return super().compress(replace(request, room=min(request.room, floors + int(KEEP * rest))))
