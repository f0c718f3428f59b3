"""Whether pruning pays: measured while it is done, for each kind of text, on the machine it runs on."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

_TRIES = 3
"""The first readings of a kind include choosing and planning kernels: the least of so many counts."""


@dataclass
class _Times:
    whole: float = float("inf")
    pruned: float = float("inf")
    tries: int = 0


class BreakEven:
    """What reading a kind of text took, whole and pruned, in milliseconds."""

    def __init__(self) -> None:
        self._times: dict[Hashable, _Times] = {}

    def known(self, kind: Hashable) -> bool:
        """Whether it has been measured often enough."""
        return kind in self._times and self._times[kind].tries >= _TRIES

    def learn(self, kind: Hashable, whole: float, pruned: float, tries: int = 1) -> None:
        """One more measurement, or the least of several."""
        times = self._times.setdefault(kind, _Times())
        times.whole, times.pruned = min(times.whole, whole), min(times.pruned, pruned)
        times.tries += tries

    def why_not(self, kind: Hashable) -> str:
        """Empty if pruning pays, or if that is not known yet."""
        times = self._times.get(kind)
        if times is None or times.tries < _TRIES or times.pruned < times.whole:
            return ""
        return (
            f"not pruned: below the break-even, reading all takes {times.whole:.1f} ms, "
            f"pruning {times.pruned:.1f} ms"
        )
