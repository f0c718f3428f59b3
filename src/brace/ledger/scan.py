"""Line by line through a run directory: typed records, and what resuming a run needs to know.

Tolerant like the tables' reader: a torn or damaged line is passed over, a newer schema is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from brace.errors import LedgerError
from brace.ledger.manifest import check_schema
from brace.ledger.records import Call, Episode, Record, Shard, Step

# The writer puts the type first, and 14 bytes tell the four types apart.
HEAD = 14
SHARD, STEP, CALL, EPISODE = (
    f'{{"type":"{name}"'.encode()[:HEAD] for name in ("shard", "step", "call", "episode")
)
_INT64 = range(-(2**63), 2**63)
_WIDE = re.compile(rb"\d{19}")  # only a line with such a number needs a closer look
_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def shards(directory: Path) -> list[Path]:
    """The run's shards, in order."""
    return sorted(directory.glob("shard-*.jsonl"))


def read_records(directory: Path) -> Iterator[Step | Call | Episode]:
    """Every whole record, typed, in the order of shards and lines, of all attempts. Skips damage."""
    for line in _whole_lines(directory):
        record = decode(line)
        if record is not None and not isinstance(record, Shard):
            yield record


def finished_episodes(directory: Path) -> dict[int, Episode]:
    """The end of each finished episode: of its last attempt, and of two ends of one attempt the first."""
    finished: dict[int, Episode] = {}
    for line in _whole_lines(directory):
        end = decode(line) if line.startswith(EPISODE) else None
        if isinstance(end, Episode):
            known = finished.get(end.episode)
            if known is None or end.attempt > known.attempt:
                finished[end.episode] = end
    return finished


def next_attempts(directory: Path) -> dict[int, int]:
    """For each episode seen, finished or not, the attempt number to use when it is begun again."""
    following: dict[int, int] = {}
    for line in _whole_lines(directory):
        record = decode(line)
        if record is not None and not isinstance(record, Shard):
            following[record.episode] = max(following.get(record.episode, 0), record.attempt + 1)
    return dict(sorted(following.items()))


def decode(line: bytes) -> Record | None:
    """The record of a line, or None when it is damaged."""
    try:
        record = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if _WIDE.search(line) is None:
        return record
    # Integers that fit no table are damage; JSON has no widest one.
    numbers = [value for value in msgspec.structs.astuple(record) if isinstance(value, int)]
    if isinstance(record, Call):
        numbers += [phase.tokens for phase in record.phases if phase.tokens is not None]
    return record if all(number in _INT64 for number in numbers) else None


def is_header(line: bytes, path: Path) -> bool:
    """Whether this is a `shard` record; raises if it is a newer one, of which only `schema` is relied on."""
    if not line.startswith(SHARD):
        return False
    try:
        header = msgspec.json.decode(line, type=_Header)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    check_schema(header.schema, path)
    return True


class _Header(msgspec.Struct, tag="shard"):
    schema: int


def _whole_lines(directory: Path) -> Iterator[bytes]:
    for path in shards(directory):
        try:
            with path.open("rb") as lines:
                for line in lines:
                    if line.endswith(b"\n") and not is_header(line, path):
                        yield line
        except OSError as error:
            raise LedgerError(f"cannot read {path}: {error.strerror}") from error
