"""Buckets: the shapes that are read as captured graphs, and in which of them pruning pays. No torch here."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from brace.erecap.schedule import Keep, Schedule
from brace.errors import ConfigError

LARGEST = 4096
"""Longer texts keep a GPU busy without graphs, and every bucket's graph takes time and memory."""
_STEP = 64
_FLOORS = 64
_TRIES = 3
"""The first readings of a kind include choosing and planning kernels: the least of so many counts."""


def bucket_of(tokens: int) -> int | None:
    """The length a text is padded to; None if it is above the largest bucket."""
    if tokens > LARGEST:
        return None
    return -(-tokens // _STEP) * _STEP


def shape_of(schedule: Schedule, keep: Keep, floors: int) -> Schedule | None:
    """The shape that a text with this schedule is read in; None if there is none.

    It is the schedule of a text as long as the bucket, so that the texts of a bucket that are kept in the
    same way share one graph. `floors` are protected tokens besides head and tail.
    """
    bucket = bucket_of(schedule.tokens)
    if bucket is None:
        return None
    if not schedule.layers:
        return Schedule(bucket, schedule.n_layers, (), ())
    # Rounded up, so that texts with a few floors more or less share a shape; a budget may hold no more than
    # the floors there are.
    for held in (-(-floors // _FLOORS) * _FLOORS, floors):
        try:
            shape = keep.schedule(bucket, schedule.n_layers, held)
        except ConfigError:
            continue
        rooms = zip(shape.kept, schedule.kept, strict=True)
        if shape.layers == schedule.layers and all(room >= count for room, count in rooms):
            return shape
    return None


def quantum(tokens: int) -> int:
    """A long text's length, rounded up by at most 1/32: kernels are planned anew for every length."""
    step = quantum_step(tokens)
    return -(-tokens // step) * step


def quantum_step(tokens: int) -> int:
    """The step of such lengths."""
    # Five bits below the highest: a 32nd of the length at most.
    return 1 << max(0, tokens.bit_length() - 6)


@dataclass
class _Times:
    whole: float = float("inf")
    pruned: float = float("inf")
    tries: int = 0


class BreakEven:
    """Whether pruning pays: what reading a kind of text took here, whole and pruned, in milliseconds."""

    def __init__(self) -> None:
        self._times: dict[Hashable, _Times] = {}

    def known(self, kind: Hashable) -> bool:
        """Whether it has been measured often enough."""
        return kind in self._times and self._times[kind].tries >= _TRIES

    def learn(self, kind: Hashable, whole: float, pruned: float, tries: int = 1) -> None:
        """One more measurement, or the least of several."""
        times = self._times.setdefault(kind, _Times())
        # The least, for other work on the machine only ever makes a reading slower.
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
