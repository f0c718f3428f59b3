"""Shapes that are read as captured graphs: a text is padded up to the next one. Pure arithmetic."""

from __future__ import annotations

from brace.erecap.schedule import Keep, Schedule
from brace.errors import ConfigError

LARGEST = 4096
"""Longer texts keep a GPU busy without graphs, and every bucket's graph takes time and memory."""
_STEP = 64
_FLOORS = 64


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
        if shape.layers == schedule.layers and _covers(shape.kept, schedule.kept):
            return shape
    return None


def _covers(rooms: tuple[int, ...], kept: tuple[int, ...]) -> bool:
    return all(room >= count for room, count in zip(rooms, kept, strict=True))


def quantum(tokens: int) -> int:
    """A long text's length, rounded up by at most 1/32: kernels are planned anew for every length."""
    step = quantum_step(tokens)
    return -(-tokens // step) * step


def quantum_step(tokens: int) -> int:
    """The step of such lengths."""
    return 1 << max(0, tokens.bit_length() - 6)
