"""Records that are two files each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from brace.training.erecap.examples import BadRecordError
from brace.training.erecap.sources.files import File


def paired(
    files: Iterable[File], key: Callable[[str], tuple[str, str]]
) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Both files' contents as soon as both were met, whichever comes first; at the end those left alone.

    `key` tells a file name's record and which half of it the file is. A half that cannot be read is left out.
    """
    waiting: dict[str, dict[str, bytes]] = {}
    for file in files:
        record, half = key(file.name)
        halves = waiting.setdefault(record, {})
        try:
            halves[half] = file.read()
        except BadRecordError:
            continue
        if len(halves) == 2:
            yield record, waiting.pop(record)
    yield from waiting.items()


def both(halves: dict[str, bytes], first: str, second: str) -> tuple[bytes, bytes]:
    """The two halves, or `BadRecordError`."""
    for half in (first, second):
        if half not in halves:
            raise BadRecordError(f"its {half} is missing")
    return halves[first], halves[second]
